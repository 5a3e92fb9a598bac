# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The limit for a statement's run, `query_timeout`: the server is asked to give up what runs for longer, and its fiber is told what
    # came of that: {QueryTimeout} where the server has confirmed it, the answer where that came all the same, {UnconfirmedTimeout} where
    # nothing is heard, after which the connection is closed.
    #
    #   overtime = Overtime.new(5, pool, upkeep, cancellation, tally)
    #   overtime.watch                          # in a loop: statements that share, or have a connection for themselves alone
    #   overtime.complete(backend, statement)   # those of a lease, whose own fiber or thread waits
    #   overtime.guard(backend, sql) { … }      # what goes by the simple protocol
    #
    # A statement's time begins when it is sent, or when the one before it on its connection is done.
    # @api private
    class Overtime
      # Seconds that the server's word is waited for when a statement's time is over. The request is repeated meanwhile.
      GRACE = 10

      # Seconds from one look to the next, at least.
      LEAST = 0.005

      # A statement that the server was asked to give up, when it had begun, since it may be sent again, and when that was.
      Late = Struct.new(:statement, :started_at, :asked_at) do
        def is?(other) = statement.equal?(other) && started_at == other.started_at
      end
      private_constant :LEAST, :Late

      # @param limit [Numeric] seconds
      # @param pool [Pool]
      # @param upkeep [Upkeep]
      # @param cancellation [Cancellation]
      # @param tally [Tally]
      # @param grace [Numeric] seconds
      def initialize(limit, pool, upkeep, cancellation, tally, grace: GRACE)
        @limit = limit
        @grace = grace
        @pool = pool
        @upkeep = upkeep
        @cancellation = cancellation
        @tally = tally
        @watching = {}.compare_by_identity
        @late = {}.compare_by_identity
      end

      # One task of a loop looks for all, since a timer for each would cost each statement.
      # @return [void]
      def watch
        scheduler = Scheduler.current
        return if scheduler.nil? || @watching[scheduler]&.alive?
        @watching[scheduler] = scheduler.transient { look(scheduler) }
      end

      # @param backend [Backend]
      # @param statement [Statement] on it that was cancelled
      # @return [Boolean] whether its own time was over: its fiber is told that then, else it was cancelled for others, or in their stead
      def end?(backend, statement)
        return false unless @late[backend]&.is?(statement)
        statement.refuse(confirmed(statement.sql, statement.error))
        true
      end

      # As {Backend#complete}, with the limit.
      # @param backend [Backend] of a lease, so that nothing else is on it
      # @param statement [Statement] on it
      # @return [void]
      def complete(backend, statement)
        backend.flush
        late = read(backend, statement)
        statement.fail(OutcomeUnknown.of(backend.broken)) unless statement.done?
        statement.refuse(confirmed(statement.sql, statement.error)) if late && statement.cancelled?
      rescue IOError, SystemCallError => error
        backend.break_off(error)
      end

      # @param backend [Backend] of a lease, out of pipeline mode
      # @param sql [String]
      # @yield what waits for the answer
      # @return [Object] the block's value
      # @raise [QueryTimeout, UnconfirmedTimeout]
      def guard(backend, sql)
        beside = Lookout.new(@limit, @grace, backend) { break_off(backend) }
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
          running(scheduler).each { |backend| end_late(backend) }
        end
      ensure
        @watching.delete(scheduler)
        @late.delete_if { |backend, late| backend.broken || late.statement.done? }
      end

      # Leases have their own fibers.
      def running(scheduler)
        @pool.backends.select { |backend| backend.loop.equal?(scheduler) && !backend.idle? && backend.broken.nil? && (backend.holder.nil? || backend.holder.alone?) }
      end

      # What is sent from now on can't be late before the limit.
      # @return [Float, nil] seconds until one may be late; nil: nothing runs
      def pause(scheduler) = running(scheduler).map { |backend| left(backend) }.min&.then { |seconds| [seconds, LEAST].max }

      def left(backend)
        head = backend.head
        return @limit if head.nil? || own?(head)
        late = @late[backend]
        return late.asked_at + Backend::AGAIN - now if late&.is?(head)
        @limit - [backend.running, 0.0].max # less than nothing, where a new loop has not heard of anything yet
      end

      # Audits, and questions to the catalogue, which have a limit of their own.
      def own?(statement) = statement.profile.nil? || statement.opening.equal?(Catalogue::OPENING)

      def end_late(backend)
        return unless due?(backend)
        return lose(backend) if backend.running > @limit + @grace
        return unless @pool.reserve(backend) { due?(backend) && !backend.asking && !backend.inquiry }
        head = backend.head
        again = @late[backend]&.is?(head)
        @late[backend] = Late.new(head, head.started_at, now)
        Background.run { @cancellation.call(backend, look: !again) if backend.head.equal?(head) && !backend.asking } # which may begin later
      end

      def due?(backend) = !backend.head.nil? && left(backend) <= 0

      def lose(backend)
        backend.head.fail(unconfirmed(backend.head.sql))
        break_off(backend)
      end

      # @return [Boolean] whether its time was over
      def read(backend, statement)
        deadline = now + @limit
        late = false
        until statement.done? || backend.broken
          left = late ? Backend::AGAIN : [deadline - now, 0].max
          next if backend.read_once(left) || statement.done?
          break lose(backend) if now > deadline + @grace
          late = true
          ask(backend)
        end
        late
      end

      # Where it is not known whether the request has arrived, it may meet with what comes later.
      def ask(backend)
        told = Cancellation.ask(backend.pg)
      ensure
        backend.stale = true unless told
      end

      def break_off(backend) = @upkeep.discard(backend)

      def confirmed(sql, result)
        @tally.timed_out += 1
        QueryTimeout.of(@limit, sql, result)
      end

      def unconfirmed(sql)
        @tally.timed_out += 1
        UnconfirmedTimeout.after(@limit, sql, @grace)
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
