# frozen_string_literal: true

require "sequel/connection_pool"
require "sequel/connection_pool/timed_queue"
require "sequel/connection_pool/sharded_timed_queue"

module NeverBlock
  class MySQL
    # Sequel's pools of virtual connections: each `hold` gets one of its own. They aren't scarce; real connections are.
    #
    #   Sequel.connect(adapter: "neverblock_trilogy", pool_class: NeverBlock::MySQL::SequelPools::Single)
    # @api private
    module SequelPools
      # Overrides common to both pool classes.
      module Pool
        # More virtual connections than memory allows.
        UNBOUNDED = 1 << 30

        # @param db [Sequel::Database]
        # @param options [Hash{Symbol=>Object}] its options
        def initialize(db, options = Sequel::OPTS)
          super(db, {**options, max_connections: UNBOUNDED})
        end

        # @raise [Sequel::PoolTimeout] if no real connection was free in time
        # @raise [NeverBlock::ConfigurationError] if fibers would share virtual connections
        def hold(server = :default)
          refuse_threads if Scheduler.current
          super
        rescue PoolTimeout => error
          raise Sequel.convert_exception_class(error, Sequel::PoolTimeout)
        end

        private

        def refuse_threads
          return if Sequel.current.is_a?(Fiber)
          raise ConfigurationError, "Sequel.current is a #{Sequel.current.class}, not a Fiber; the fibers of a loop " \
            "would use each other's transactions. Call Sequel.extension(:fiber_concurrency) after the code that has " \
            "undone it"
        end

        # SET statements that have run so far, by Sequel or by hooks, are session defaults. Then a real connection is
        # opened, so that errors are raised here, as by the plain adapter.
        def make_new(server)
          connection = super
          connection.configured
          connection.ready
          whole = connection
        rescue Trilogy::Error, *db.send(:database_error_classes) => error
          raise Sequel.convert_exception_class(error, Sequel::DatabaseConnectionError)
        ensure
          connection&.close unless whole # a killed fiber runs no rescue
        end

        def checkin_connection(connection, *server)
          connection.check_in
          super
        end

        # Opens one for each server; more would have no effect.
        def preconnect(_concurrently = false) = servers.each { |server| hold(server) { |_connection| } }
      end

      # Without shards.
      Single = Class.new(Sequel::TimedQueueConnectionPool) { include Pool }

      # With `servers:`.
      Sharded = Class.new(Sequel::ShardedTimedQueueConnectionPool) { include Pool }
    end
  end
end
