# frozen_string_literal: true

# The time that only goes forward.
#
#   deadline = Bench::Clock.now + 5
module Bench
  module Clock
    # @return [Float] seconds
    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
