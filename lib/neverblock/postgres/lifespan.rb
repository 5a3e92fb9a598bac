# frozen_string_literal: true

module NeverBlock
  class Postgres
    # How long real connections live, and how many there are at least. {Turnover} sees to the ends, {WarmStart} to the beginnings.
    #
    #   lifespan = Lifespan.new(max_age: 3600, idle_timeout: 300, min_connections: 2)
    #   lifespan.old?(connection.age)
    #
    # nil is what was not said, 0 is without an end.
    # @api private
    class Lifespan
      # Of a limit so much is by chance, at most: connections that were opened at once do not end at once. As Active Record has it.
      JITTER = 0.2

      # Seconds from one look to the next, at most: where connections are to be kept, and else.
      REFILL_INTERVAL = 5.0
      LONGEST_INTERVAL = 60.0

      # So many looks within the shortest limit.
      LOOKS_PER_LIMIT = 4

      # Seconds between two looks, however short a limit is.
      SHORTEST_INTERVAL = 0.02
      private_constant :REFILL_INTERVAL, :LONGEST_INTERVAL, :LOOKS_PER_LIMIT, :SHORTEST_INTERVAL

      # @return [Integer]
      attr_reader :min_connections

      # @param connections [Integer] that there may be
      # @param max_age [Numeric, nil] seconds after which a connection is replaced
      # @param idle_timeout [Numeric, nil] seconds without a user after which it is closed, beyond the least number
      # @param keepalive [Numeric, nil] seconds without a message after which the server is asked for one
      # @param min_connections [Integer]
      # @param pool_jitter [Numeric] which part of max_age and keepalive is by chance, from 0 to 1
      # @raise [ArgumentError] for values that can't be
      def initialize(connections:, max_age: nil, idle_timeout: nil, keepalive: nil, min_connections: 0, pool_jitter: JITTER)
        @limits = {max_age:, idle_timeout:, keepalive:}.each { |name, value| Options.seconds(name, value) }
        @min_connections = least(min_connections, connections)
        @jitter = share(pool_jitter)
      end

      # @param limits [Hash{Symbol=>Numeric}] for what was not said: an adapter's own defaults
      # @return [void]
      def default(limits)
        @limits = @limits.merge(limits) { |_, said, default| said || default }
      end

      # @return [Boolean] whether there is anything to look after
      def any? = @min_connections > 0 || !limits.empty?

      # @return [Float] seconds from one look to the next
      def every = [(@min_connections > 0) ? REFILL_INTERVAL : LONGEST_INTERVAL, *limits.map { |limit| [limit / LOOKS_PER_LIMIT.to_f, SHORTEST_INTERVAL].max }].min

      # @return [Age] of a connection that is opened now
      def begin = Age.new(rand * @jitter)

      # @param age [Age]
      # @return [Boolean] whether its connection is to be replaced
      def old?(age) = past?(:max_age, age.since_birth, age)

      # @param age [Age]
      # @return [Boolean] whether it has been without a user for too long
      def idle?(age) = past?(:idle_timeout, age.since_use)

      # @param age [Age]
      # @return [Boolean] whether the server is to be asked something
      def quiet?(age) = past?(:keepalive, age.since_message, age)

      private

      def past?(name, seconds, age = nil)
        limit = @limits[name]
        end?(limit) && seconds >= limit * (age ? age.share : 1)
      end

      def limits = @limits.values.select { |limit| end?(limit) }

      def end?(limit) = !limit.nil? && limit.positive? && limit.finite?

      def least(value, most)
        raise ArgumentError, "min_connections: #{value.inspect} is no whole number of connections (0 or more)" unless value.is_a?(Integer) && value >= 0
        return value if value <= most
        raise ArgumentError, "min_connections: #{value} is more than there may be, which is connections: #{most}. Raise that, or lower this"
      end

      def share(value)
        return value if value.is_a?(Numeric) && value.real? && value.between?(0, 1)
        raise ArgumentError, "pool_jitter: #{value.inspect} is no part of a limit (a number from 0, for none of it, to 1)"
      end
    end
  end
end
