# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # Raises and counts the errors of check-outs that get no connection.
    #
    #   refusals = Refusals.new("sessions", places)
    #   refusals.late(5)   # raises "no connection of the pool sessions became free within 5 s: …"
    # @api private
    class Refusals
      # Seconds for which a description of the holders is reused: thousands of waiters may time out at once.
      TELL_EVERY = 0.1
      private_constant :TELL_EVERY

      # @param name [String] the pool's
      # @param places [Places]
      def initialize(name, places)
        @name = name
        @places = places
        @timeouts = @refused = 0
        @told_at = 0.0
      end

      # @return [Integer] waits that were in vain
      attr_reader :timeouts
      # @return [Integer] check-outs that were refused, since too many waited
      attr_reader :refused

      # @raise [PoolShuttingDownError]
      def shut
        raise PoolShuttingDownError, "the pool #{@name} was shut down: make a new one"
      end

      # @raise [OverloadError]
      def full
        @refused += 1
        raise OverloadError,
          "#{@places.most} wait for a connection of the pool #{@name} already (max_waiting:): #{shortage}"
      end

      # @param timeout [Numeric] seconds
      # @raise [TimeoutError]
      def late(timeout)
        @timeouts += 1
        raise TimeoutError, "no connection of the pool #{@name} became free within #{timeout} s: #{shortage}"
      end

      private

      def shortage
        now = Clock.now
        return @shortage if now - @told_at < TELL_EVERY
        @told_at = now
        holdings = @places.holdings
        words = " (#{Holders.new(holdings).words})" if holdings.any?
        @shortage = "#{holdings.size} of #{@places.size} are held#{words}, #{@places.waiting} wait. Raise size:, " \
          "hold them for less long, or bound what runs at a time"
      end
    end
  end
end
