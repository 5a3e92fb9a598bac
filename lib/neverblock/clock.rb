# frozen_string_literal: true

require_relative "runtime/extension"

module NeverBlock
  # The time, as the library reads it: real, or virtual in a test ({Testing::VirtualClock}).
  #
  #   deadline = NeverBlock::Clock.now + 5
  #   NeverBlock.timeout_at(deadline) { fetch }
  #
  # Limits, ages and lifetimes are of this clock, so a test with a virtual clock needs no waiting. Code of yours that
  # reads the time here takes part. The methods are in ext/neverblock/scheduler/clock_module.c.
  module Clock
    # @!method self.now
    #   @return [Float] seconds that only go forward, for deadlines and ages: CLOCK_MONOTONIC

    # @!method self.nanoseconds
    #   @return [Integer] the same in nanoseconds

    # @!method self.wall
    #   @return [Float] seconds since 1970: CLOCK_REALTIME

    # @!method self.time
    #   @return [Time] the same as a local Time, to the nanosecond

    # @!method self.virtual?
    #   @return [Boolean] whether a {Testing::VirtualClock} is in use
  end
end
