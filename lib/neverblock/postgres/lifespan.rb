# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The limits of connections' lives, and their least number. {Turnover} closes them, {WarmStart} opens them.
    #
    #   lifespan = Lifespan.new(max_age: 3600, idle_timeout: 300, min_connections: 2)
    #   lifespan.old?(connection.age)
    #
    # A limit that is nil was not given: an adapter's default may take its place. 0 means no limit.
    # @api private
    class Lifespan
      # Random part of a limit, from 0 to 1, so that connections that were opened together don't end together. Active Record has the same.
      JITTER = 0.2

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

      # @param connections [Integer] maximum number of connections
      # @param max_age [Numeric, nil] seconds after which a connection is replaced
      # @param idle_timeout [Numeric, nil] seconds without a user after which it is closed, if there are more than `min_connections`
      # @param keepalive [Numeric, nil] seconds without a message after which it is probed
      # @param min_connections [Integer]
      # @param pool_jitter [Numeric] random part of max_age and keepalive, from 0 to 1
      # @raise [ArgumentError] for values that can't be
      def initialize(connections:, max_age: nil, idle_timeout: nil, keepalive: nil, min_connections: 0, pool_jitter: JITTER)
        @limits = {max_age:, idle_timeout:, keepalive:}.each { |name, value| Options.seconds(name, value) }
        @min_connections = least(min_connections, connections)
        @jitter = share(pool_jitter)
      end

      # @param limits [Hash{Symbol=>Numeric}] an adapter's defaults, for limits that were not given
      # @return [void]
      def default(limits)
        @limits = @limits.merge(limits) { |_, said, default| said || default }
      end

      # @return [Boolean] whether there is a limit or a least number
      def any? = @min_connections > 0 || !limits.empty?

      # @return [Float] seconds between two checks
      def every = [(@min_connections > 0) ? REFILL_INTERVAL : LONGEST_INTERVAL, *limits.map { |limit| [limit / LOOKS_PER_LIMIT.to_f, SHORTEST_INTERVAL].max }].min

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

      def least(value, most)
        raise ArgumentError, "min_connections: #{value.inspect} must be an integer, 0 or more" unless value.is_a?(Integer) && value >= 0
        return value if value <= most
        raise ArgumentError, "min_connections: #{value} is more than connections: #{most}. Raise connections: or lower min_connections:"
      end

      def share(value)
        return value if value.is_a?(Numeric) && value.real? && value.between?(0, 1)
        raise ArgumentError, "pool_jitter: #{value.inspect} must be a number from 0 (no jitter) to 1"
      end
    end
  end
end
