# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # `connection_pool.stat` tells, with `adapter: neverblock_postgresql`, what is beneath its adapters: the real connections that all
      # pools of the same configuration share. Other adapters are left alone.
      #
      #   ActiveRecord::Base.connection_pool.stat[:neverblock]   # => {size: 12, connections: 9, idle: 3, busy: 6, …}
      module PoolStat
        # Prepended to ActiveRecord::ConnectionAdapters::ConnectionPool.
        module Pool
          # @return [Hash{Symbol=>Object}] as Active Record's; with :neverblock, as {Postgres#stats} has it, as long as an adapter is connected
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
