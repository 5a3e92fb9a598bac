# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # Stands for a single connection: each call goes to a connection of the pool, for that call.
    #
    #   redis = NeverBlock::ConnectionPool::Wrapper.new(size: 5) { Redis.new }
    #   redis.get("key")
    #   redis.with { |connection| … }   # several calls on one connection
    #
    # Calls that belong together, such as WATCH and MULTI, need {#with}.
    class Wrapper < BasicObject
      # @param pool [ConnectionPool, nil] nil: a new one with these options
      def initialize(pool: nil, **options, &connect)
        @pool = pool || ::NeverBlock::ConnectionPool.new(**options, &connect)
      end

      # @return [ConnectionPool]
      def wrapped_pool = @pool

      # @see ConnectionPool#with
      def with(...) = @pool.with(...)

      # @see ConnectionPool#shutdown
      def pool_shutdown(&) = @pool.shutdown(&)

      # @return [Integer]
      def pool_size = @pool.size

      # @return [Integer]
      def pool_available = @pool.available

      # @return [Boolean]
      def respond_to?(name, private_too = false)
        OWN.include?(name.to_sym) || @pool.with { |connection| connection.respond_to?(name, private_too) }
      end

      # @return [Object]
      def method_missing(name, ...) # standard:disable Style/MissingRespondToMissing -- a BasicObject has none
        @pool.with { |connection| connection.public_send(name, ...) }
      end

      OWN = instance_methods(false).freeze
      private_constant :OWN
    end
  end
end
