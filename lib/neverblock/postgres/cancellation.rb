# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Asks the server to give up what runs on a connection that is shared, or had for a single statement. The request may meet with what
    # comes to run meanwhile: {Delivery} has that sent again. What is sent when it is over cannot meet with it any more.
    #
    #   cancellation = Cancellation.new(upkeep)
    #   cancellation.call(connection)
    #
    # @api private
    class Cancellation
      # Seconds that a request may take.
      TIMEOUT = 10

      # @param pg [PG::Connection]
      # @return [Boolean] whether the request has arrived, and been carried out as far as it can be; else it may arrive at any time
      def self.ask(pg)
        Timeout.timeout(TIMEOUT) { pg.cancel }.nil?
      rescue Timeout::Error, ThreadError, IOError, SystemCallError, PG::Error
        false
      end

      # @param upkeep [Upkeep]
      def initialize(upkeep)
        @upkeep = upkeep
      end

      # @param connection [PipelinedConnection] of the loop that runs
      # @param look [Boolean] whether nothing is asked where the answer may have come
      # @yieldreturn [Boolean] whether that is known to be more than can be read at once
      # @return [void]
      def call(connection, look: true)
        return if look && Fiber.blocking { connection.pg.socket_io.wait_readable(0) } && !(block_given? && yield)
        connection.relieving = connection.asking = true
        connection.given_up = connection.head
        told = Cancellation.ask(connection.pg)
      rescue IOError, PG::ConnectionBad
        nil # it is gone
      ensure
        connection.stale = true if connection.asking && !told
        connection.asking = false
        resume(connection) if connection.put_off
      end

      private

      def resume(connection)
        connection.put_off = false
        @upkeep.settle(connection)
      end
    end
  end
end
