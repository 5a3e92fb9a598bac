# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Adds to `connection_pool.stat` the real connections beneath the adapters, with `adapter: neverblock_postgresql`.
      # All pools of the same configuration share them. Other adapters are unchanged.
      #
      #   ActiveRecord::Base.connection_pool.stat[:neverblock]   # => {size: 12, connections: 9, idle: 3, busy: 6, …}
      module PoolStat
        # Prepended to ActiveRecord::ConnectionAdapters::ConnectionPool.
        module Pool
          # @return [Hash{Symbol=>Object}] Active Record's, and :neverblock with the Hash of {Postgres#stats}
          #   while an adapter is connected
          def stat
            return super unless db_config.adapter == "neverblock_postgresql"
            database = connections.find(&:multiplexed)&.multiplexed
            database ? {**super, neverblock: database.stats} : super
          end
        end

        def self.apply = ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
      end
    end
  end
end
