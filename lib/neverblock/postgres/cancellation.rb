# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Asks the server to cancel the running statement of a connection that is not leased. The request may hit a
    # statement that begins meanwhile; {Delivery} sends that one again. It can't hit one that is sent after the call.
    #
    #   cancellation = Cancellation.new(upkeep)
    #   cancellation.call(connection)
    #
    # @api private
    class Cancellation
      # Seconds for one request to cancel.
      TIMEOUT = 10

      # @param pg [PG::Connection]
      # @return [Boolean] whether the server has processed the request; false: it may still arrive at any time
      def self.ask(pg)
        Timeout.timeout(TIMEOUT) { pg.cancel }.nil?
      rescue Timeout::Error, ThreadError, IOError, SystemCallError, PG::Error
        false
      end

      # @param upkeep [Upkeep]
      def initialize(upkeep)
        @upkeep = upkeep
      end

      # @param connection [PipelinedConnection] one of the present loop
      # @param look [Boolean] whether to skip the request if the result may have arrived
      # @yieldreturn [Boolean] whether to send it all the same, since the result is too large to be read at once
      # @return [void]
      def call(connection, look: true)
        return if look && Fiber.blocking { connection.pg.socket_io.wait_readable(0) } && !(block_given? && yield)
        connection.relieving = connection.asking = true
        connection.given_up = connection.head
        told = Cancellation.ask(connection.pg)
      rescue IOError, PG::ConnectionBad
        nil # it was closed
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
