# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Exclusive use of a connection, for a transaction or for session state.
    #
    #   lease = multiplexer.lease(session_defaults, purpose: "LISTEN news")
    #   lease.run(statement)
    #   lease.give_back
    #
    # Fibers that use the same lease take turns.
    # @api private
    class Lease
      # Session state that DISCARD ALL leaves: the seed of random(), connections of dblink, replication origins. A
      # set_config whose name is not a literal may set the seed.
      SURVIVES_DISCARD = /
        setseed|\bseed\b|set_config(?!"?\s*\(\s*'[^']*'\s*,)|dblink|replication_origin|replication_slot
      /ix

      UNCONFIRMED = "this connection was closed: the server did not confirm within #{SessionReset::TIMEOUT} s that " \
        "an interrupted statement was cancelled"
      private_constant :UNCONFIRMED

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
        @over = @tainted = @unbegun = @opens = @moved = @cancelled = @native = @interrupted = false
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

      # Runs a statement of an open transaction as pg does, at less cost than {#run}.
      # @param read [Read]
      # @return [PG::Result, nil] nil: it was not sent, since something is unusual
      # @raise [PG::Error]
      def ask(read)
        return if @native || @unbegun || @opens || @cancelled || @overtime || @mutex.locked?
        @mutex.synchronize { ask_in_turn(read) }
      end

      # The fiber of such a statement was interrupted.
      # @param statement [Statement]
      # @return [void]
      def leave(statement)
        @connection.withdraw(statement)
        statement.abandon
      end

      # The user was told that a transaction has begun, but its BEGIN is sent with the first statement, and may fail or
      # be cancelled with it. Later statements must not take effect outside a transaction then.
      # @return [Boolean] whether the transaction has not begun
      def unbegun?
        in_turn { check || finish_abandoned } if @opens
        @unbegun
      end

      # @return [PG::Result] of the ROLLBACK for a transaction that has not begun
      def end_unbegun
        run(Statement.new("ROLLBACK", session_defaults: SessionDefaults::EMPTY, notices: ->(_) {}))
          .tap { @unbegun = false }
      end

      # Yields the connection out of pipeline mode.
      # @param notices [Proc, nil] gets the notices
      # @yieldparam pg [PG::Connection]
      def native(notices = nil)
        nested = in_turn?
        in_turn do
          check
          finish_abandoned
          end_native if @interrupted && !nested
          @native = @interrupted = true
          value = @connection.inside_libpq { yield @connection.plain(notices) }
          @interrupted = nested
          value
        rescue IOError, SystemCallError, PG::ConnectionBad
          check # if it was closed meanwhile, say so rather than how
          raise
        end
      end

      # Books a statement that is sent out of pipeline mode.
      # @param sql [String]
      # @return [void]
      def plainly(sql)
        @multiplexer.tally.answered(@request)
        @request.sql = sql
      end

      # Runs a block with the limit of `query_timeout`.
      # @param sql [String] for the message
      # @yield sends the statement out of pipeline mode
      # @return [Object] the block's value
      # @raise [QueryTimeout, UnconfirmedTimeout]
      def limited(sql, &) = @overtime ? @overtime.guard(@connection, sql, &) : yield

      # @return [Boolean] whether this fiber has the turn: it is inside {#native}, such as in a block of copy_data
      def in_turn? = @mutex.owned?

      # @return [Boolean] whether {#native} was called since the last statement, so that results may be unread
      def plain? = @native && !broken?

      # Yields the connection in its present mode, for calls that send nothing to the server.
      # @yieldparam pg [PG::Connection]
      def native_or_not
        check
        yield @connection.pg
      end

      # Asks the server to cancel the running statement. The request may come late: the connection is reset after it.
      # @return [String, nil] the error, if it could not be asked
      def cancel
        @cancelled = true
        @cancelling += 1
        @connection.pg.cancel
      ensure
        @cancelling -= 1
      end

      # @return [Float] seconds that its request waited
      def queue_time = @request.queue_time

      # A statement leaves session state, which other users must not find.
      # @param what [String] the statement or call, for the log
      # @param settings [Array<String>, nil] the settings, if it leaves nothing else: {Resets}
      def leave_state(what, settings = nil)
        @tainted = true if SURVIVES_DISCARD.match?(what.b) # texts may be of any bytes
        @settings &&= settings && (@settings | settings)
        @state ||= settings&.any? ? "SET #{settings.first}" : what
      end

      # @return [Boolean] whether it has session state that only DISCARD ALL resets
      def discards? = !@state.nil? && @settings.nil?

      # @return [String, nil] the first statement or call that has left session state
      attr_reader :state

      # The user had the real connection in hands: it is closed at the end.
      def taint = @tainted = true

      # @return [Boolean]
      def tainted? = @tainted

      # A setting was changed that decides what a text means, such as search_path: prepared statements are out of use.
      def moved = @moved = true

      # @return [Boolean]
      def moved? = @moved

      # @return [Integer] PG::PQTRANS_…
      def transaction_status
        return PG::PQTRANS_ACTIVE unless @connection.idle?
        @unbegun ? PG::PQTRANS_INERROR : @connection.transaction_status
      end

      # @return [Boolean] whether its session ends with each transaction, as PgBouncer's transaction mode has it
      def pooled? = @multiplexer.pooled?

      # @return [Boolean] whether its connection was lost
      def broken? = !@connection.broken.nil?

      # Ends the lease. The connection is reset first if it has session state.
      # @return [void]
      def give_back
        return if @over
        @over = true
        return if broken?
        if @tainted || @cancelling > 0 || in_others_hands?
          return @multiplexer.retire(@connection, busy: in_others_hands?)
        end
        calm = !@cancelled && @connection.idle? && @connection.transaction_status == PG::PQTRANS_IDLE
        clean = (@state.nil? || pooled?) && calm && @connection.reported.leak.nil?
        @multiplexer.give_back(@connection, clean:, discard: !@state.nil? || @cancelled, settings: (@settings if calm))
      end

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Lease #{@request}#{" with #{@state}" if @state}>"

      private

      # @return [Boolean] whether another fiber or thread is inside {#native}: in a COPY, or waiting for notifications
      def in_others_hands? = plain? && @mutex.locked? && !@mutex.owned?

      def ask_in_turn(read)
        return if @over || !@connection.idle? || @connection.transaction_status != PG::PQTRANS_INTRANS
        time = Clock.now
        name = @connection.ready(read, time) or return
        @request.sql = read.sql
        result = @connection.ask(read, name, time)
        return read.statement.value || lost_result unless result
        @multiplexer.tally.answered(@request)
        result
      end

      # It was sent: without this the caller would send it again.
      def lost_result = raise(OutcomeUnknown.of(@connection.broken || PG::ConnectionBad.new("no result came")))

      def in_turn(&) = in_turn? ? yield : @mutex.synchronize(&)

      def check
        raise ClosedError, "this lease has ended: the connection was checked in. Check out another one" if @over
        if broken?
          raise PG::ConnectionBad, "#{@connection.broken.message.strip}. The transaction and its session state are lost"
        end
      end

      # Reads unread results, as PG::Connection#exec does. What was interrupted is cancelled first.
      def end_native
        confirmed { SessionReset.new(@connection).give_up } if @interrupted && @connection.runs?
        @connection.inside_libpq { @connection.pg.discard_results }
        @native = @interrupted = false
      rescue PG::Error => error
        @connection.break_off(error)
        raise
      end

      # Cancels a statement whose fiber was interrupted.
      def finish_abandoned
        confirmed { @connection.give_up } unless @connection.idle?
        check
        opened if @opens
      end

      # Runs a block that cancels, with a limit. Without one a ROLLBACK on a silent network would wait until the kernel
      # gives up.
      def confirmed
        Timeout.timeout(SessionReset::TIMEOUT) { yield }
      rescue Timeout::Error
        @connection.break_off(ClosedError.new(UNCONFIRMED))
        check
      end

      # @param statement [Statement, nil] the one with the BEGIN; nil: it was cancelled
      def opened(statement = nil)
        @opens = statement && !statement.done?
        @unbegun = !@opens && @connection.transaction_status == PG::PQTRANS_IDLE &&
          (statement.nil? || !statement.error.nil?)
      end
    end
  end
end
