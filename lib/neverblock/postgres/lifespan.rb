# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The limits of connections' lives, and their least number. {Turnover} closes them, {WarmStart} opens them.
    #
    #   lifespan = Lifespan.new(**Options.complete({max_age: 3600, idle_timeout: 300, min_connections: 2}))
    #   lifespan.old?(connection.age)
    #
    # A limit that is nil was not given: an adapter's default may take its place. 0 means no limit.
    # @api private
    class Lifespan
      # Seconds between two checks, at most: with `min_connections`, and without.
      REFILL_INTERVAL = 5.0
      LONGEST_INTERVAL = 60.0

      # Checks within the shortest limit.
      LOOKS_PER_LIMIT = 4

      # Seconds between two checks, at least.
      SHORTEST_INTERVAL = 0.02
      private_constant :REFILL_INTERVAL, :LONGEST_INTERVAL, :LOOKS_PER_LIMIT, :SHORTEST_INTERVAL

      # @return [Integer]
      attr_reader :min_connections

      # @param max_age [Numeric, nil] seconds after which a connection is replaced
      # @param idle_timeout [Numeric, nil] seconds without use until it is closed, beyond `min_connections`
      # @param keepalive [Numeric, nil] seconds without a message after which it is probed
      # @param min_connections [Integer]
      # @param pool_jitter [Numeric] random part of max_age and keepalive, from 0 to 1, so that connections that were
      #   opened together don't end together
      def initialize(max_age:, idle_timeout:, keepalive:, min_connections:, pool_jitter:, **)
        @limits = {max_age:, idle_timeout:, keepalive:}
        @min_connections = min_connections
        @jitter = pool_jitter
      end

      # @param limits [Hash{Symbol=>Numeric}] an adapter's defaults, for limits that were not given
      # @return [void]
      def default(limits)
        @limits = @limits.merge(limits) { |_, said, default| said || default }
      end

      # @return [Boolean] whether there is a limit or a least number
      def any? = @min_connections > 0 || !limits.empty?

      # @return [Float] seconds between two checks
      def every
        [(@min_connections > 0) ? REFILL_INTERVAL : LONGEST_INTERVAL,
          *limits.map { |limit| [limit / LOOKS_PER_LIMIT.to_f, SHORTEST_INTERVAL].max }].min
      end

      # @return [Age] of a connection that is opened now
      def begin = Age.new(rand * @jitter)

      # @param age [Age]
      # @return [Boolean] whether its connection must be replaced
      def old?(age) = past?(:max_age, age.since_birth, age)

      # @param age [Age]
      # @return [Boolean] whether it has been without a user for too long
      def idle?(age) = past?(:idle_timeout, age.since_use)

      # @param age [Age]
      # @return [Boolean] whether its connection must be probed
      def quiet?(age) = past?(:keepalive, age.since_message, age)

      private

      def past?(name, seconds, age = nil)
        limit = @limits[name]
        end?(limit) && seconds >= limit * (age ? age.share : 1)
      end

      def limits = @limits.values.select { |limit| end?(limit) }

      def end?(limit) = !limit.nil? && limit.positive? && limit.finite?
    end
  end
end
