# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A connection that one has for himself, for a transaction or for what a session keeps.
    #
    #   lease = multiplexer.lease(session_defaults, purpose: "LISTEN news")
    #   lease.run(statement)
    #   lease.give_back
    #
    # Its users take turns.
    # @api private
    class Lease
      # DISCARD ALL does not undo it: whoever calls random() next would get numbers that another one has chosen, or find another
      # one's connections by dblink. A set_config that takes the setting's name from elsewhere may set the seed.
      SURVIVES_DISCARD = /setseed|\bseed\b|set_config(?!"?\s*\(\s*'[^']*'\s*,)|dblink|replication_origin|replication_slot/i

      # @return [PipelinedConnection]
      attr_reader :connection

      def initialize(multiplexer, connection, request)
        @multiplexer = multiplexer
        @connection = connection
        @request = request
        @overtime = multiplexer.overtime
        @mutex = Thread::Mutex.new
        @state = nil
        @settings = Statement::NONE
        @over = @tainted = @unbegun = @opens = @moved = @cancelled = @native = false
        @cancelling = 0
      end

      # @param statement [Statement]
      # @return [PG::Result]
      def run(statement)
        in_turn do
          check
          finish_abandoned
          end_native if @native
          @request.sql = statement.sql
          @connection.push(statement)
          begin
            @overtime ? @overtime.complete(@connection, statement) : @connection.complete(statement)
          ensure
            opened(statement) if statement.opening && statement.sent?
            leave(statement) unless statement.done?
          end
        end
        statement.value
      end

      # A BEGIN goes out with the first statement, and may fail, or be cancelled, with it. Its transaction was said to have begun:
      # what follows must not take effect by itself.
      # @return [Boolean] whether it has not
      def unbegun?
        in_turn { check || finish_abandoned } if @opens
        @unbegun
      end

      # @return [PG::Result] of the ROLLBACK that ends what has not begun
      def end_unbegun
        run(Statement.new("ROLLBACK", session_defaults: SessionDefaults::EMPTY, notices: ->(_) {})).tap { @unbegun = false }
      end

      # What goes with no pipeline.
      # @param notices [Proc, nil] what gets its notices
      # @yieldparam pg [PG::Connection]
      def native(notices = nil)
        in_turn do
          check
          finish_abandoned
          @native = true
          yield @connection.plain(notices)
        rescue IOError, SystemCallError
          check # it was closed meanwhile: that is what matters, not how
          raise
        end
      end

      # @param sql [String] that goes out with no pipeline
      # @return [void]
      def plainly(sql)
        @multiplexer.tally.answered(@request)
        @request.sql = sql
      end

      # @param sql [String]
      # @yield what sends it by the simple protocol
      # @return [Object] the block's value
      # @raise [QueryTimeout, UnconfirmedTimeout]
      def limited(sql, &) = @overtime ? @overtime.guard(@connection, sql, &) : yield

      # @return [Boolean] whether it is this fiber's turn, which is in the midst of something then: in a block of copy_data, say
      def in_turn? = @mutex.owned?

      # @return [Boolean] whether its user has had the connection itself since the last statement, so that results may be left to read
      def plain? = @native && !broken?

      # What asks nothing of the server.
      # @yieldparam pg [PG::Connection] in whatever mode it is
      def native_or_not
        check
        yield @connection.pg
      end

      # Asks the server to give up what runs. The request may arrive late: the connection serves nobody else before it has.
      # @return [String, nil] why not
      def cancel
        @cancelled = true
        @cancelling += 1
        @connection.pg.cancel
      ensure
        @cancelling -= 1
      end

      # @return [Float] seconds that it was waited for
      def queue_time = @request.queue_time

      # It keeps something that others must not find.
      # @param what [String] for the log
      # @param settings [Array<String>, nil] that are all it keeps: {Resets}
      def leave_state(what, settings = nil)
        @tainted = true if SURVIVES_DISCARD.match?(what.b) # texts may be of any bytes
        @settings &&= settings && (@settings | settings)
        @state ||= settings&.any? ? "SET #{settings.first}" : what
      end

      # @return [Boolean] whether it keeps what only DISCARD ALL undoes
      def discards? = !@state.nil? && @settings.nil?

      # @return [String, nil] what it keeps
      attr_reader :state

      # User's code has had the connection itself: nobody else gets it.
      def taint = @tainted = true

      # @return [Boolean]
      def tainted? = @tainted

      # Texts mean something else by its settings than by those of its session defaults.
      def moved = @moved = true

      # @return [Boolean]
      def moved? = @moved

      # @return [Integer] PG::PQTRANS_…
      def transaction_status
        return PG::PQTRANS_ACTIVE unless @connection.idle?
        @unbegun ? PG::PQTRANS_INERROR : @connection.transaction_status
      end

      # @return [Boolean] whether its connection keeps nothing beyond a transaction
      def pooled? = @multiplexer.pooled?

      # @return [Boolean] whether its connection is gone
      def broken? = !@connection.broken.nil?

      # The connection may serve others.
      # @return [void]
      def give_back
        return if @over
        @over = true
        return if broken?
        return @multiplexer.retire(@connection, busy: in_others_hands?) if @tainted || @cancelling > 0 || in_others_hands?
        calm = !@cancelled && @connection.idle? && @connection.transaction_status == PG::PQTRANS_IDLE
        clean = (@state.nil? || pooled?) && calm && @connection.reported.leak.nil?
        @multiplexer.give_back(@connection, clean:, discard: !@state.nil? || @cancelled, settings: (@settings if calm))
      end

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Lease #{@request}#{" with #{@state}" if @state}>"

      private

      # Another fiber, or thread, is in the midst of a COPY, or waits for notifications.
      def in_others_hands? = plain? && @mutex.locked? && !@mutex.owned?

      def in_turn(&) = in_turn? ? yield : @mutex.synchronize(&)

      def check
        raise ClosedError, "this lease is over" if @over
        raise PG::ConnectionBad, "#{@connection.broken.message.strip}, and with it what it kept for this one" if broken?
      end

      # As PG::Connection#exec does, of a COPY that was broken off, say.
      def end_native
        @connection.pg.discard_results
        @native = false
      rescue PG::Error => error
        @connection.break_off(error)
        raise
      end

      def leave(statement)
        @connection.withdraw(statement)
        statement.abandon
      end

      # A statement that was interrupted before.
      def finish_abandoned
        @connection.give_up
        check
        opened if @opens
      end

      # @param statement [Statement, nil] that had a BEGIN before it; nil: it has been given up
      def opened(statement = nil)
        @opens = statement && !statement.done?
        @unbegun = !@opens && @connection.transaction_status == PG::PQTRANS_IDLE && (statement.nil? || !statement.error.nil?)
      end
    end
  end
end
