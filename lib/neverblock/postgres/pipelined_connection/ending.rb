# frozen_string_literal: true

module NeverBlock
  class Postgres
    class PipelinedConnection
      # Ends a connection, and settles the statements on it.
      #
      #   connection.break_off(error)   # sent statements fail, unsent ones move to another connection
      # @api private
      module Ending
        # Ends it. Sent statements fail with {OutcomeUnknown}; unsent ones move to another connection.
        # @param error [Exception]
        # @param trusted [Boolean] whether results that have arrived, and wait for an audit, may be delivered
        # @return [void]
        def break_off(error, trusted: true)
          return if @broken
          become_statement if @read
          @broken = error = told(error)
          sent, unsent = @sent.dup, @outbox
          @ended_by_server = !sent.empty? && !error.is_a?(Error)
          @sent.clear
          @outbox = []
          begin
            # This comes before closing, which waits from Ruby 4.0 on until other fibers have left the socket.
            @owner.lost(self, unsent)
          ensure
            close
          end
          sent.each do |statement|
            statement.fail(OutcomeUnknown.of(error))
            answered = statement.audited or next # its result has arrived; it waited only for this audit
            next if answered.done?
            trusted ? answered.finish : answered.fail(OutcomeUnknown.of(error))
          end
        end

        # While a fiber waits inside of libpq only the socket is shut down, which ends that wait. The fiber then closes
        # the connection: see {#inside_libpq}.
        # @return [void]
        def close
          @broken ||= ClosedError.new("this connection was closed")
          return if @pg.finished?
          @inside.zero? ? @pg.close : @io.shutdown
        rescue PG::Error, IOError, SystemCallError
          nil # it was closed already
        end

        # Runs calls of pg that wait. After its wait such a call goes on with libpq's memory, which must not have been
        # freed by another fiber meanwhile.
        # @return [Object] the block's value
        def inside_libpq
          @inside += 1
          yield
        ensure
          @inside -= 1
          close if @broken && @inside.zero?
        end

        # Called in a forked child, where the socket is the parent's.
        def disown
          @io.reopen(IO::NULL)
          @broken = ClosedError.new("this connection belongs to the process that forked")
        rescue IOError, SystemCallError
          nil
        end

        private

        # Adds the server's last message, even one that came as a result. libpq's own error is empty if it finds the end
        # of the stream before it reads that message.
        def told(error)
          return error if error.is_a?(Error)
          words = @wire.last_words || @sent.first&.error&.error_message
          return error if words.nil? && !error.message.strip.empty?
          PG::ConnectionBad.new("#{words}#{error.message}".strip.then do |text|
            text.empty? ? "the server closed the connection" : text
          end)
        end

        def interrupted
          break_off(ClosedError.new("this connection was closed: the fiber that sent or read for all was interrupted"))
        end
      end
    end
  end
end
