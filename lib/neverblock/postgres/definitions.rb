# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What tables, views and functions are made of has changed, or changes when a transaction ends: statements that were parsed before are
    # parsed anew, and the {Catalogue} is asked again.
    #
    #   definitions.altered(connection, lasting: true)
    #
    # @api private
    class Definitions
      # @param pool [Pool]
      # @param catalogue [Catalogue, nil]
      def initialize(pool, catalogue)
        @pool = pool
        @catalogue = catalogue
      end

      # @param connection [PipelinedConnection, nil] by which that was done; nil: none of these
      # @param lasting [Boolean] whether others may find it when the transaction has ended: a temporary table is none's but its session's
      # @return [void]
      def altered(connection = nil, lasting: true)
        lasting ||= connection&.altering == :lasting
        connection&.altering = ((lasting ? :lasting : :temporary) unless connection.transaction_status == PG::PQTRANS_IDLE)
        at = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @pool.connections.each { |one| one.names.outdate(at) }
        @catalogue&.outdate if lasting && !connection&.altering
      end

      # A text is parsed anew on each connection.
      # @param key [Object] what it was prepared by
      # @return [void]
      def forget(key) = @pool.connections.each { |connection| connection.names.give_up(key) }
    end
  end
end
