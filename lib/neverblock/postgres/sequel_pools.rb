# frozen_string_literal: true

require "sequel/connection_pool"
require "sequel/connection_pool/timed_queue"
require "sequel/connection_pool/sharded_timed_queue"
require_relative "pipeline/datasets"

module NeverBlock
  class Postgres
    # Sequel's pools of virtual connections: each `hold` gets one of its own. They aren't scarce; real connections are.
    # @api private
    module SequelPools
      Pipeline.libraries << Pipeline::Datasets

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
          check_concurrency if Scheduler.current
          super
        rescue PoolTimeout => error
          raise Sequel.convert_exception_class(error, Sequel::PoolTimeout)
        end

        # @return [Boolean] whether the calling fiber has a connection
        def held? = servers.any? { |server| owned_connection(Sequel.current, *(server if is_a?(Sharded))) }

        private

        def check_concurrency
          return if Sequel.current.is_a?(Fiber)
          raise ConfigurationError, "Sequel.current is a #{Sequel.current.class}, not a Fiber, and in a loop all " \
            "fibers are on one thread: they " \
            "would use each other's transactions. Call Sequel.extension(:fiber_concurrency) after the code that has " \
            "undone it"
        end

        # Statements that have run so far, by Sequel or by hooks, are session defaults.
        def make_new(server)
          super.tap(&:configured)
        rescue Sequel::DatabaseConnectionError => error
          raise(theirs?(error.wrapped_exception) ? error : error.wrapped_exception)
        end

        # Sequel wraps every exception of connecting. Cancellations, timeouts and configuration errors are not the
        # server's, and are unwrapped.
        def theirs?(exception)
          exception.nil? || (exception.is_a?(StandardError) && !exception.is_a?(NeverBlock::Error))
        end

        # Ends a session that a script has begun outside of the loop.
        def acquire(*) = super.tap { |connection| connection.check_in if Scheduler.current }

        # Outside of a loop the session of a script or console lasts, as in a plain pool with one connection.
        def checkin_connection(connection, *server)
          connection.check_in unless connection.changed? && !Scheduler.current && only?(*server)
          return super if connection.status == PG::CONNECTION_OK
          disconnect_acquired_connection(connection, nil, *server)
          connection
        end

        # Closes the virtual connections that are not in use.
        # @return [Boolean] whether only one is in use
        def only?(*server)
          disconnect(server: server.first)
          size(*server) == 1
        end

        # Opens one for each server; more would have no effect.
        def preconnect(_concurrently = false)
          servers.each { |server| hold(server) { |_connection| } }
        end
      end

      # Without shards.
      class Single < Sequel::TimedQueueConnectionPool
        include Pool
      end

      # With `servers:`.
      class Sharded < Sequel::ShardedTimedQueueConnectionPool
        include Pool
      end
    end
  end
end
