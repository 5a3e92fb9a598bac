# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Enforces `query_timeout`: asks the server to cancel a statement that runs longer. The statement then ends with
    # {QueryTimeout} if the server has confirmed the cancel, with its result if that arrives first, or with
    # {UnconfirmedTimeout} if the server stays silent; in that case the connection is closed.
    #
    #   overtime = Overtime.new(5, pool, upkeep, cancellation, tally)
    #   overtime.watch                             # in a loop: for statements that share or are alone
    #   overtime.complete(connection, statement)   # for a lease: its own fiber or thread waits
    #   overtime.guard(connection, sql) { … }      # for calls out of pipeline mode
    #
    # The time counts from when the statement is sent, or from the end of the one before it on its connection.
    # @api private
    class Overtime
      include MonotonicClock

      # Seconds to wait for the server to confirm a cancel. The request is repeated meanwhile.
      GRACE = 10

      # Seconds between two checks, at least.
      SHORTEST_PAUSE = 0.005

      # A statement that the server was asked to cancel; when it had begun, as it may be sent again; when asked.
      Late = Struct.new(:statement, :started_at, :asked_at) do
        def is?(other) = statement.equal?(other) && started_at == other.started_at
      end
      private_constant :SHORTEST_PAUSE, :Late

      # @param limit [Numeric] seconds
      # @param pool [Pool]
      # @param upkeep [Upkeep]
      # @param cancellation [Cancellation]
      # @param tally [Tally]
      def initialize(limit, pool, upkeep, cancellation, tally)
        @limit = limit
        @pool = pool
        @upkeep = upkeep
        @cancellation = cancellation
        @tally = tally
        @watching = {}.compare_by_identity
        @late = {}.compare_by_identity
      end

      # Starts the task of this loop that checks for all statements. (A timer for each would cost each statement.)
      # @return [void]
      def watch
        scheduler = Scheduler.current
        return if scheduler.nil? || @watching[scheduler]&.alive?
        @watching[scheduler] = scheduler.transient { look(scheduler) }
      end

      # @param connection [PipelinedConnection]
      # @param statement [Statement] one on it that was cancelled
      # @return [Boolean] whether it had exceeded its limit, with which it then fails; false: cancelled for others
      def end?(connection, statement)
        return false unless @late[connection]&.is?(statement)
        statement.refuse(confirmed(statement.sql, statement.error, statement.harmless?))
        true
      end

      # Like {PipelinedConnection#complete}, with the limit.
      # @param connection [PipelinedConnection] one of a lease, with no other statement on it
      # @param statement [Statement] the one on it
      # @return [void]
      def complete(connection, statement)
        connection.flush
        late = read(connection, statement)
        statement.fail(OutcomeUnknown.of(connection.broken)) unless statement.done?
        statement.refuse(confirmed(statement.sql, statement.error, statement.harmless?)) if late && statement.cancelled?
      rescue IOError, SystemCallError => error
        connection.break_off(error)
      end

      # @param connection [PipelinedConnection] one of a lease, out of pipeline mode
      # @param sql [String]
      # @yield sends the statement and waits for its result
      # @return [Object] the block's value
      # @raise [QueryTimeout, UnconfirmedTimeout]
      def guard(connection, sql)
        beside = Lookout.new(@limit, connection) { break_off(connection) }
        value = yield
        beside.end
        value
      rescue IOError, SystemCallError, PG::Error => error
        beside.end
        raise unconfirmed(sql) if beside.lost?
        raise confirmed(sql, error.result) if beside.late? && PG::QueryCanceled === error
        raise
      ensure
        beside&.leave
      end

      private

      def look(scheduler)
        while (seconds = pause(scheduler))
          sleep(seconds)
          running(scheduler).each { |connection| end_late(connection) }
        end
      ensure
        @watching.delete(scheduler)
        @late.delete_if { |connection, late| connection.broken || late.statement.done? }
      end

      # Without leases: their own fibers check.
      def running(scheduler)
        @pool.connections.select do |connection|
          connection.loop.equal?(scheduler) && !connection.idle? && connection.broken.nil? &&
            (connection.holder.nil? || connection.holder.alone?)
        end
      end

      # @return [Float, nil] seconds until a statement may exceed the limit; nil: none runs
      def pause(scheduler)
        running(scheduler).map { |connection| left(connection) }.min&.then { |seconds| [seconds, SHORTEST_PAUSE].max }
      end

      def left(connection)
        head = connection.head
        return @limit if head.nil? || own?(head)
        late = @late[connection]
        return late.asked_at + PipelinedConnection::RECANCEL_AFTER - now if late&.is?(head)
        @limit - [connection.running, 0.0].max # `running` is negative if a new loop has not looked at the kernel yet
      end

      # Our own statements: audits, and queries of the catalogue, which have a limit of their own.
      def own?(statement) = statement.session_defaults.nil? || statement.opening.equal?(Catalogue::OPENING)

      def end_late(connection)
        return unless due?(connection)
        return lose(connection) if connection.running > @limit + GRACE
        return unless @pool.drain(connection) { due?(connection) && !connection.asking && !connection.inquiry }
        head = connection.head
        again = @late[connection]&.is?(head)
        @late[connection] = Late.new(head, head.started_at, now)
        Background.run do # it may begin later
          @cancellation.call(connection, look: !again) if connection.head.equal?(head) && !connection.asking
        end
      end

      def due?(connection) = !connection.head.nil? && left(connection) <= 0

      def lose(connection)
        connection.head.fail(unconfirmed(connection.head.sql))
        break_off(connection)
      end

      # @return [Boolean] whether the statement has exceeded its limit
      def read(connection, statement)
        deadline = now + @limit
        late = false
        until statement.done? || connection.broken
          left = late ? PipelinedConnection::RECANCEL_AFTER : [deadline - now, 0].max
          next if connection.read_once(left) || statement.done?
          break lose(connection) if now > deadline + GRACE
          late = true
          ask(connection)
        end
        late
      end

      # If it is unknown whether the request has arrived, it may hit a later statement: the connection is stale then.
      def ask(connection)
        told = Cancellation.ask(connection.pg)
      ensure
        connection.stale = true unless told
      end

      def break_off(connection) = @upkeep.discard(connection)

      def confirmed(sql, result, harmless = false)
        @tally.timed_out += 1
        QueryTimeout.of(@limit, sql, result, harmless:)
      end

      def unconfirmed(sql)
        @tally.timed_out += 1
        UnconfirmedTimeout.after(@limit, sql, GRACE)
      end
    end
  end
end
