# frozen_string_literal: true

module NeverBlock
  class Postgres
    class PipelinedConnection
      # How a connection ends, and what becomes of the statements on it.
      #
      #   connection.break_off(error)   # what was sent fails, what was not moves on
      # @api private
      module Ending
        # Ends it: those that were sent may have been executed or not, the others move on.
        # @param error [Exception]
        # @param trusted [Boolean] whether answers that have come, and wait for an audit, may be delivered
        # @return [void]
        def break_off(error, trusted: true)
          return if @broken
          @broken = error = told(error)
          sent, unsent = @sent.dup, @outbox
          @ended_by_server = !sent.empty? && !error.is_a?(Error)
          @sent.clear
          @outbox = []
          begin
            @owner.lost(self, unsent) # first: from Ruby 4.0 on, closing waits until other fibers have left the socket
          ensure
            close
          end
          sent.each do |statement|
            statement.fail(OutcomeUnknown.of(error))
            answered = statement.audited or next # which waited for this one alone
            next if answered.done?
            trusted ? answered.finish : answered.fail(OutcomeUnknown.of(error))
          end
        end

        # @return [void]
        def close
          @broken ||= ClosedError.new("this connection was closed")
          @pg.close unless @pg.finished?
        rescue PG::Error
          nil # it was gone already
        end

        # In a forked child: its socket is the parent's.
        def disown
          @io.reopen(IO::NULL)
          @broken = ClosedError.new("this connection belongs to the process that forked")
        rescue IOError, SystemCallError
          nil
        end

        private

        # What the server said last is told too, be it in an answer. libpq says nothing where it finds the end before it looks for more.
        def told(error)
          return error if error.is_a?(Error)
          words = @wire.last_words || @sent.first&.error&.error_message
          return error if words.nil? && !error.message.strip.empty?
          PG::ConnectionBad.new("#{words}#{error.message}".strip.then { |text| text.empty? ? "the server closed the connection" : text })
        end

        def interrupted = break_off(ClosedError.new("this connection was closed: whoever sent or read for all was interrupted meanwhile"))
      end
    end
  end
end
