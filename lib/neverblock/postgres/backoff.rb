# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Pauses between attempts to connect. After a failure one attempt is made at a time, and each pause is twice as long
    # as the last, so that a server that is starting, or has no connection left, doesn't get a thousand attempts.
    #
    #   backoff.failed(error)
    #   backoff.left        # => 0.04: seconds until the next attempt
    #   backoff.succeeded
    # @api private
    class Backoff
      include MonotonicClock

      # Seconds.
      FIRST_PAUSE = 0.05
      LONGEST_PAUSE = 1.0

      # Random part of each pause, from 0 to 1, so that the processes of an app don't connect at the same time.
      JITTER = 0.5
      private_constant :JITTER

      def initialize
        @failures = 0
        @next = @failed_at = -Float::INFINITY
        @error = nil
      end

      # @param error [Exception]
      # @return [void]
      def failed(error)
        @failures += 1
        @error = error
        @failed_at = now
        @next = @failed_at + [FIRST_PAUSE * 2**(@failures - 1), LONGEST_PAUSE].min * (1 - rand * JITTER)
      end

      # @return [void]
      def succeeded
        @failures = 0
        @error = nil
      end

      # @return [Boolean] whether the last attempt has failed
      def active? = @failures > 0

      # @return [Float] seconds until the next attempt
      def left = active? ? [@next - now, 0.0].max : 0.0

      # @param time [Float] on the monotonic clock
      # @return [Exception, nil] the last failure, if it came after this time and was not the first
      def since(time) = (@error.dup if @failures > 1 && @failed_at >= time)
    end
  end
end
