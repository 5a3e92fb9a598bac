# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Handles changes of tables, views and functions, by statements that have ended or by open transactions: older
    # prepared statements are not used any more, and the {Catalogue} is read again.
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

      # @param connection [PipelinedConnection, nil] the connection of the statement; nil: it is unknown
      # @param lasting [Boolean] whether others may see the change after its transaction, unlike a temporary table
      # @return [void]
      def altered(connection = nil, lasting: true)
        lasting ||= connection&.altering == :lasting
        connection
          &.altering = ((lasting ? :lasting : :temporary) unless connection.transaction_status == PG::PQTRANS_IDLE)
        at = Clock.now
        @pool.connections.each { |one| one.names.outdate(at) }
        @catalogue&.outdate if lasting && !connection&.altering
      end

      # Drops a prepared statement on each connection.
      # @param key [Object] of the {Statement}
      # @return [void]
      def forget(key) = @pool.connections.each { |connection| connection.names.give_up(key) }
    end
  end
end
