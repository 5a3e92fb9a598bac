# frozen_string_literal: true

module NeverBlock
  class Postgres
    # How long a server that could not be connected to is left alone: after a failure one attempt at a time is made, each after a pause
    # that doubles, so that a server which is starting, or has no connection left, is not asked a thousand times at once.
    #
    #   backoff.failed(error)
    #   backoff.left        # => 0.04: seconds until the next attempt
    #   backoff.succeeded
    # @api private
    class Backoff
      FIRST_PAUSE = 0.05 # seconds
      LONGEST_PAUSE = 1.0

      # Of each pause so much is by chance, lest all processes of an app come at once.
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

      # @param time [Float] of the monotonic clock
      # @return [Exception, nil] what the last attempt failed with, where it was not the first to fail and has failed since then
      def since(time) = (@error.dup if @failures > 1 && @failed_at >= time)

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
