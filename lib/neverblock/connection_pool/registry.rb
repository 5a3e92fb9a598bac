# frozen_string_literal: true

require_relative "../runtime/unique_names"

module NeverBlock
  class ConnectionPool
    # The open pools of this Ractor by unique names: the source `:connection_pools` of {NeverBlock.stats}. References
    # are weak.
    #
    #   Registry.join(pool, "sessions")         # => "sessions", or "sessions (2)" if that is taken
    #   NeverBlock.stats[:connection_pools]     # => {"sessions" => {size: 20, idle: 3, held: 2, …}}
    # @api private
    module Registry
      class << self
        # @param pool [ConnectionPool]
        # @param wanted [String]
        # @return [String] its name from now on
        def join(pool, wanted)
          pools[pool] = true
          names.take(wanted, pool)
        end

        # @return [Array<ConnectionPool>]
        def open = pools.keys.reject(&:shut?)

        # @return [Hash{String=>Hash}]
        def stats = open.select(&:name).sort_by(&:name).to_h { |pool| [pool.name, pool.stats] }

        private

        def pools
          Ractor.current[:neverblock_connection_pools] ||= begin
            Stats.register(:connection_pools, self)
            ObjectSpace::WeakMap.new
          end
        end

        def names = Ractor.current[:neverblock_connection_pool_names] ||= UniqueNames.new(&:shut?)
      end
    end
  end
end
