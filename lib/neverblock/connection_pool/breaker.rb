# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # A circuit breaker: after some failures in sequence, check-outs are refused for a while. Then one is let through;
    # if its use ends well, all are.
    #
    #   breaker = Breaker.new(failures: 5, cooldown: 10)
    #   breaker.admit("sessions")   # raises CircuitOpenError while it is open
    #   breaker.failed(error)
    #   breaker.succeeded
    # @api private
    class Breaker
      include MonotonicClock

      COUNT = ValueType.count(least: 1)
      SECONDS = ValueType.seconds
      # What says that the store failed. A cancellation or a killed thread does not.
      FAILURES = [StandardError, Timeout::ExitException].freeze
      private_constant :COUNT, :SECONDS, :FAILURES

      # @param failures [Integer] in sequence
      # @param cooldown [Numeric] seconds
      # @param on [Array<Module>] the exceptions that count
      # @raise [ArgumentError]
      def initialize(failures: 5, cooldown: 10, on: FAILURES)
        @limit = COUNT.check(failures) { "breaker: failures:" }
        @cooldown = SECONDS.check(cooldown) { "breaker: cooldown:" }
        @on = on
        @failures = 0
        @closed_at = @last = nil
      end

      # @return [Boolean] whether check-outs are refused
      def open? = !@closed_at.nil? && now < @closed_at

      # @param name [String] the pool's, for the message
      # @return [void]
      # @raise [CircuitOpenError]
      def admit(name)
        return unless @closed_at
        left = @closed_at - now
        # The one that is let through has until the next one is.
        return @closed_at += @cooldown - left if left <= 0
        raise CircuitOpenError, format("the pool %s asks nothing for another %.1f s: its last %d uses failed, the " \
          "last one by %s. See to the store, or change breaker:", name, left, @failures, @last)
      end

      # @param error [Exception] that has ended the opening, or the use, of a connection
      # @return [void]
      def failed(error)
        return unless @on.any? { |one| one === error }
        @failures += 1
        @last = "#{error.message.to_s[0, 200]} (#{error.class})"
        @closed_at = now + @cooldown if @failures >= @limit
      end

      # @return [void]
      def succeeded
        return if @failures.zero?
        @failures = 0
        @closed_at = nil
      end

      private
    end
  end
end
