# frozen_string_literal: true

module NeverBlock
  # The time that only goes forward, for deadlines and ages.
  #
  #   include MonotonicClock
  #
  #   def late? = now > @deadline
  # @api private
  module MonotonicClock
    private

    # @return [Float] seconds
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
