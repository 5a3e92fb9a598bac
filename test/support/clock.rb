# frozen_string_literal: true

module NeverBlockTest
  # The time that only goes forward.
  #
  #   include NeverBlockTest::Clock
  #
  #   deadline = now + 10
  module Clock
    private

    # @return [Float] seconds
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
