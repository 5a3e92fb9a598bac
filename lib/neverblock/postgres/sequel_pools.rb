# frozen_string_literal: true

require "sequel/connection_pool"
require "sequel/connection_pool/timed_queue"
require "sequel/connection_pool/sharded_timed_queue"
require_relative "pipeline/datasets"

module NeverBlock
  class Postgres
    # Sequel's pools for virtual connections: every hold has one of its own, since what is scarce is beneath them.
    # @api private
    module SequelPools
      Pipeline.libraries << Pipeline::Datasets

      # What is ours of them.
      module Pool
        # Memory's limit comes first.
        UNBOUNDED = 1 << 30

        # @param db [Sequel::Database]
        # @param options [Hash{Symbol=>Object}] of it
        def initialize(db, options = Sequel::OPTS)
          super(db, {**options, max_connections: UNBOUNDED})
        end

        # @raise [Sequel::PoolTimeout] if no real connection was free in time
        # @raise [NeverBlock::ConfigurationError] where fibers would share connections
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
          raise ConfigurationError, "Sequel.current is no fiber but a #{Sequel.current.class}, and this is a loop, whose fibers are all on one thread: they " \
            "would use each other's transactions. Call Sequel.extension(:fiber_concurrency), after whatever has undone it"
        end

        # What has run so far, whoever asked for it, is part of the connection's session defaults.
        def make_new(server)
          super.tap(&:configured)
        rescue Sequel::DatabaseConnectionError => error
          raise(theirs?(error.wrapped_exception) ? error : error.wrapped_exception)
        end

        # Sequel wraps all that ends the wait for a connection: a cancellation, a timeout and a configuration that can't be are no server's fault.
        def theirs?(exception) = exception.nil? || (exception.is_a?(StandardError) && !exception.is_a?(NeverBlock::Error))

        # What a script has set on it outside of the loop ends here.
        def acquire(*) = super.tap { |connection| connection.check_in if Scheduler.current }

        # Outside of a loop the session of a script or console goes on from statement to statement, as in a plain pool that
        # never had to open a second connection.
        def checkin_connection(connection, *server)
          connection.check_in unless connection.changed? && !Scheduler.current && only?(*server)
          return super if connection.status == PG::CONNECTION_OK
          disconnect_acquired_connection(connection, nil, *server)
          connection
        end

        # @return [Boolean] whether nobody else has one; those that nobody has are closed
        def only?(*server)
          disconnect(server: server.first)
          size(*server) == 1
        end

        # One of each server: the others cost nothing.
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
