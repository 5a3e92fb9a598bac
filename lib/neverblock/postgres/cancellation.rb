# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Asks the server to give up what runs on a connection that is shared, or had for a single statement. The request may meet with what
    # comes to run meanwhile: {Delivery} has that sent again. What is sent when it is over cannot meet with it any more.
    #
    #   cancellation = Cancellation.new(upkeep)
    #   cancellation.call(backend)
    #
    # @api private
    class Cancellation
      # Seconds that a request may take.
      LIMIT = 10

      # @param pg [PG::Connection]
      # @return [Boolean] whether the request has arrived, and been carried out as far as it can be; else it may arrive at any time
      def self.ask(pg)
        Timeout.timeout(LIMIT) { pg.cancel }.nil?
      rescue Timeout::Error, ThreadError, IOError, SystemCallError, PG::Error
        false
      end

      # @param upkeep [Upkeep]
      def initialize(upkeep)
        @upkeep = upkeep
      end

      # @param backend [Backend] of the loop that runs
      # @param look [Boolean] whether nothing is asked where the answer may have come
      # @yieldreturn [Boolean] whether that is known to be more than can be read at once
      # @return [void]
      def call(backend, look: true)
        return if look && Fiber.blocking { backend.pg.socket_io.wait_readable(0) } && !(block_given? && yield)
        backend.relieving = backend.asking = true
        backend.given_up = backend.head
        told = Cancellation.ask(backend.pg)
      rescue IOError, PG::ConnectionBad
        nil # it is gone
      ensure
        backend.stale = true if backend.asking && !told
        backend.asking = false
        resume(backend) if backend.put_off
      end

      private

      def resume(backend)
        backend.put_off = false
        @upkeep.settle(backend)
      end
    end
  end
end
