# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The connections of a process to one database, and the statements of many fibers on them.
    #
    #   multiplexer = Multiplexer.new(-> { PG.connect(url) }, connections: 12)
    #   multiplexer.run(Statement.new("select 1", profile: Profile::EMPTY))
    #   lease = multiplexer.lease(Profile::EMPTY, purpose: "BEGIN")
    #
    # @api private
    class Multiplexer
      # Statements on one shared connection.
      DEPTH = 64

      # Seconds from one look at what an idle connection keeps to the next.
      AUDIT_EVERY = Patrol::EVERY

      # @param connect [#call] returns a new PG::Connection
      # @param connections [Integer] at most
      # @param depth [Integer] statements on a shared connection
      # @param backlog [Integer] statements that wait for a connection, at most
      # @param timeout [Numeric, nil] seconds that one waits for a connection at most; while statements that share get places, the others
      #   that share wait on
      # @param shares [Boolean] whether statements share connections
      # @param audit [Boolean] whether that is looked for after each statement too
      # @param audit_settings [Array<String>] names of custom settings that are looked at
      # @param pgbouncer [:transaction, :session, nil] what is between
      # @param sessions [Multiplexer, nil] for what needs a session, if that is none
      # @param shareable [Array<String>] functions of the user's that are known to leave nothing in their session
      # @param log [#call] gets lines for the log
      def initialize(connect, connections:, depth: DEPTH, backlog: Backlog::LIMIT, timeout: Backlog::TIMEOUT, shares: true, audit: false, audit_settings: [], pgbouncer: nil, sessions: nil, shareable: [], log: ->(line) { warn("NeverBlock: #{line}") })
        @connections = Options.positive("connections", connections)
        @waiting = {limit: Options.positive("backlog", backlog), timeout: Options.seconds("timeout", timeout)}
        @audit = Audit.new(settings: audit_settings)
        @opener = Opener.new(connect, audit: @audit, depth: Options.positive("depth", depth), shares:, pgbouncer:)
        @pooled = pgbouncer == :transaction
        @sessions = sessions
        @audits_all = audit
        @shares = shares
        @shareable = shareable
        @log = log
        @closed = false
        @reaper = nil
        start
        Forks.watch(self)
      end

      # @return [Timings]
      attr_reader :timings

      # @api private
      # @param reaper [#call] as {Backlog#reaper}
      def reaper=(reaper)
        @backlog.reaper = @reaper = reaper
      end

      # Runs a statement outside of any lease, from a fiber of a loop.
      # @param statement [Statement]
      # @return [PG::Result]
      # @raise [PG::Error, PoolTimeout]
      def run(statement)
        check
        statement.audit_by(@audit.sql) if @audits_all
        until statement.done?
          statement.backend ? statement.backend.complete(statement, alone: @router.spare?) : place(statement)
        end
        statement.value
      rescue Exception # standard:disable Lint/RescueException -- it goes on, and says more
        Doubt.tell($!) if statement.in_doubt?
        raise
      ensure
        statement.done? ? tend(statement.backend) : leave(statement)
      end

      # Whether a statement may leave something in its session though its text does not say so: then it runs alone, and its connection is
      # made as it was before it serves anything else.
      # @return [Catalogue, nil] none through a PgBouncer in transaction mode, where sessions are not ours
      attr_reader :catalogue

      # @return [Integer] how many clusters its connections have led to, one after the other
      def clusters = @hosts.clusters

      # @return [Boolean] whether its connections keep nothing beyond a transaction
      def pooled? = @pooled

      # @param what [String] what needs a session
      # @return [Multiplexer] whose connections have one
      # @raise [ConfigurationError] if there is none
      def with_sessions(what) = @pooled ? @sessions || raise(PgBouncer.no_session(what)) : self

      # @api private
      # Statements whose fibers wait for a place get one, or are told why not.
      # @param batch [Batch]
      def place_all(batch)
        check
        find_place(batch) until batch.backend
        go_on(batch.backend)
      rescue => error
        batch.fail(error)
      ensure
        batch.backend ? release_empty(batch) : forgo_batch(batch)
      end

      # A connection of one's own.
      # @param profile [Profile]
      # @param purpose [String] who wants it and why, for messages
      # @return [Lease]
      # @raise [PG::Error, PoolTimeout]
      def lease(profile, purpose:)
        check
        lease = claim(profile, purpose) until lease&.backend&.alive?
        whole = lease
      ensure
        lease&.give_back unless whole
      end

      # @api private
      # Whether the server can be talked to, as far as sockets tell.
      # @return [void]
      # @raise [PG::Error] where no connection is open any more, and none can be opened
      def verify
        check
        return if @router.backends.dup.any? { |backend| backend.alive?(look: true) }
        @first.call(:verify) { open_one(Profile::EMPTY) }
      end

      # @api private
      # @param profile [Profile, nil] whose encoding matters, or nothing
      # @param whole [Boolean] whether all of the profile does
      # @param settings [Array<String>] that are reported, and are to be as the profile has them, whatever those who lease it have set
      # @yieldparam pg [PG::Connection] one of the connections, for what asks nothing of the server
      # @return [Object] the block's value
      def sample(profile = nil, whole: false, settings: Statement::NONE)
        check
        fits = ->(other) { profile.nil? || (whole ? other == profile : other.encoding == profile.encoding) }
        plain = ->(candidate) { settings.empty? || candidate.holder.nil? || candidate.leak(settings).nil? }
        until (backend = @router.backends.find { |candidate| candidate.broken.nil? && fits.call(candidate.profile) && plain.call(candidate) })
          @first.call(whole ? profile : profile&.encoding) { open_one(profile || Profile::EMPTY) } # one for all who ask now
        end
        yield backend.pg
      end

      # @api private
      # What needs no server is answered here, once there is a connection.
      # @param tag [String] such as "BEGIN"
      # @return [PG::Result] the same for all
      def answer(tag)
        known = @answers[tag] if @router.backends.any? { |backend| backend.broken.nil? }
        known || sample { |pg| @answers[tag] ||= Answer.of(tag, pg) }
      end

      # @api private
      # Tells once per text that something was kept until check-in.
      # @param lease [Lease]
      def note(lease)
        return if @noted.size >= 1_000 || !@noted.add?(lease.state)
        say("a connection was held until check-in, and is cleaned, because of: #{lease.state.to_s[0, 200]}")
      end

      # @api private
      # @param backend [Backend] whose lease is over
      # @param clean [Boolean] whether it is as it was
      # @param discard [Boolean] whether it may keep something
      def give_back(backend, clean:, discard:)
        return discard(backend) if backend.stale || (@pooled && discard && !clean)
        return settle(backend) if clean && !@audits_all
        in_background { restore(backend, discard, audit: @audits_all) }
      end

      # @api private
      # @param backend [Backend] which no one is to use again
      def discard(backend) = backend.break_off(ClosedError.new("this connection was closed: it could not be trusted any more"), trusted: false)

      # @api private
      # What runs on it is given up first, by a task of its own; until it has ended it counts as a connection.
      # @param backend [Backend] whose lease is over, and which no one is to use again
      # @param busy [Boolean] whether another fiber is in the midst of something on it
      def retire(backend, busy:)
        altered # by what user's code has done on it, perhaps
        return discard(backend) unless backend.runs?
        @lock.synchronize { @router.hold(backend, :restore) }
        in_background do
          busy ? Timeout.timeout(Restoration::LIMIT) { backend.pg.cancel } : Restoration.new(backend).give_up
        rescue Timeout::Error, ThreadError, PG::Error
          nil # it does not answer, or is gone, or Ruby ends and makes no threads
        ensure
          discard(backend)
        end
      end

      # @api private
      # A text is parsed anew on each connection.
      # @param key [Object] what it was prepared by
      def forget(key) = @router.backends.each { |backend| backend.names.give_up(key) }

      # @api private
      # What tables are made of may have changed, or changes when the transaction ends: what was parsed before is parsed anew.
      # @param backend [Backend, nil] by which that was done
      # @param lasting [Boolean] whether others may find it when the transaction has ended: a temporary table is none's but its session's
      def altered(backend = nil, lasting: true)
        lasting ||= backend&.altering == :lasting
        backend&.altering = ((lasting ? :lasting : :temporary) unless backend.transaction_status == PG::PQTRANS_IDLE)
        at = now
        @router.backends.each { |one| one.names.outdate(at) }
        @catalogue&.outdate if lasting && !backend&.altering
      end

      # @api private
      # A backend's statements whose answers have come.
      def finished(backend, statements)
        left if !backend.stale && backend.promoted?
        altered(backend, lasting: statements.any?(&:defines?)) if backend.altering || statements.any?(&:alters?)
        holder = backend.holder
        shared = !holder.is_a?(Claim) && holder != :restore
        statements = @guard.cleared(backend, statements) if shared
        statements.each { |statement| backend.broken ? undelivered(backend, statement.awaited) : ended(backend, statement, shared) }
        settle(backend) if shared && !backend.broken
      end

      # @api private
      # Others wait for what runs on them.
      # @yieldparam backend [Backend]
      # @yieldreturn [Boolean] whether that is so
      def relieve
        @router.backends.dup.each do |backend|
          next unless @lock.synchronize { yield(backend) && backend.reserved = true }
          begin
            backend.relieve
          ensure
            settle(backend) if backend.put_off?
          end
        end
      end

      # @api private
      # A backend is gone; these were not sent and move on.
      def lost(backend, unsent)
        held = backend.holder.is_a?(Claim)
        idle = @lock.synchronize do
          @router.lost(backend)
          backend.ended_by_server ? @router.outdate : []
        end
        backend.inquiry&.held&.each { |statement| undelivered(backend, statement.awaited) }
        altered if backend.altering || backend.ended_by_server # what was done is not known
        @router.backends.each(&:doubt)
        idle.each(&:close) # most likely ended too: what is tried again gets a new one
        unsent.each do |statement|
          next statement.fail(PG::ConnectionBad.new(backend.broken.message.strip)) if held || statement.abandoned?
          statement.backend = nil
          statement.wake
        end
      end

      # @api private
      # Somebody keeps a virtual connection of it.
      def joined
        @sessions&.joined
        @lock.synchronize { @members += 1 }
      end

      # @api private
      # He has closed it. With the last one go the connections that nobody uses, as a pool's would: DROP DATABASE wants none.
      def parted
        @sessions&.parted
        idle = @lock.synchronize { ((@members -= 1) == 0) ? @router.rest : [] }
        idle.each(&:close)
      end

      # Closes all connections. Statements under way fail.
      # @return [void]
      def close
        @closed = true
        @sessions&.close
        @lock.synchronize { @router.empty_queues }
        @router.backends.dup.each { |backend| backend.break_off(ClosedError.new("NeverBlock::Postgres was closed")) }
      end

      # @api private
      # Connections that nobody uses now, and somebody has since they were looked at, are: one after the other, from {Patrol}'s thread.
      # @return [Boolean] whether it is to be done again
      def look_around
        @catalogue&.expire
        @router.backends.dup.each do |backend|
          restore(backend, false, audit: true) if reserve(backend) { @router.unseen?(backend) }
        end
        !@closed
      rescue PG::Error, ClosedError => error
        say("what a connection keeps could not be looked at: #{error.message}")
        !@closed
      end

      # @api private
      # A forked child has none of its parent's connections.
      # @return [void]
      def disown
        @opener.disown
        @router.backends.each(&:disown)
        start
      end

      # @return [Hash{Symbol=>Integer}] :connections, :opening, :idle, :held, :in_flight, :queued, :displaced; :sessions, those of session_url:
      def stats
        own = @lock.synchronize { {**@router.stats, displaced: @relief.displaced} }
        @sessions ? own.merge(sessions: @sessions.stats[:connections]) : own
      end

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Multiplexer #{stats.map { |name, count| "#{name} #{count}" }.join(", ")}>"

      private

      def start
        @lock = Thread::Mutex.new
        @timings = Timings.new
        @noted = Set.new
        @answers = {}
        @defaults = Defaults.new
        @first = Flight.new(share: StandardError)
        @catalogue = Catalogue.new(shareable: @shareable, log: method(:say), later: method(:in_background)) { |sql, profile| question(sql, profile) } unless @pooled
        @members = 0
        @hosts ||= Hosts.new # in a forked child the same
        @router = Router.new(limit: @connections, timings: @timings, shares: @shares, backlog: @waiting[:limit])
        @backlog = Backlog.new(@router, @lock, connections: @connections, **@waiting)
        @backlog.reaper = @reaper
        @guard = Guard.new(asks: !@pooled) { |backend, statements, what| leaked(backend, statements, what) }
        @relief = Relief.new(self, @router, @timings)
      end

      def check
        raise ClosedError, "this NeverBlock::Postgres was closed: open a new one" if @closed
      end

      # In a loop by a statement that shares: leases may have all connections but the one that is left for those.
      def open_one(profile)
        return lease(profile, purpose: "the first connection").give_back unless Scheduler.current
        run(Statement.new("SELECT 1", profile:)).clear
      end

      # It may be asked again where its connection goes: it changes nothing.
      def question(sql, profile, left = RETRIES)
        run(Statement.new(sql, profile:, opening: Catalogue::OPENING, alone: true).tap { |statement| statement.gathered = false })
      rescue OutcomeUnknown
        raise if left.zero?
        question(sql, profile, left - 1)
      end

      def claim(profile, purpose)
        claim = Claim.new(profile, purpose)
        find_place(claim) until claim.done?
        lease = Lease.new(self, claim.backend, claim)
      ensure
        forgo(claim) unless lease
      end

      def place(statement)
        pipeline = Pipeline.current if statement.gathered.nil? && !statement.doubt
        pipeline ? pipeline.gather(self, statement) : find_place(statement)
      end

      def find_place(request)
        check
        victim = nil
        placed = @lock.synchronize do
          way = @router.route(request)
          victim, @router.victim = @router.victim, nil
          way
        end
        victim&.close
        case placed
        when :placed then @relief.watch if request.backend.depth > 1
        when :open then open_for(request)
        when :queued then wait_for_place(request)
        when :full then @backlog.full
        end
      end

      def wait_for_place(request)
        @relief.watch
        @backlog.wait(request)
      end

      # In a loop by a task of its own: whoever gives up meanwhile leaves no connection half open, but a whole one for others.
      def open_for(request)
        return open_here(request) unless Scheduler.current
        answer = Thread::Queue.new
        in_background do
          open_here(request)
          answer << true
        rescue => error
          answer << error
        ensure
          answer.close
        end
        error = answer.pop || ClosedError.new("the loop ended while a connection was being opened")
        raise error if Exception === error
      end

      def open_here(request)
        backend = @opener.call(request.profile, self)
        check
        replaced = placed = changed = outdated = nil
        @lock.synchronize do
          before = @hosts.current
          replaced = [before, @router.outdate] if @hosts.arrive(backend.server)
          changed = @defaults.changed(request.profile, backend.defaults) if backend.defaults
          outdated = @router.outdate if changed
          backend.cluster = @hosts.clusters
          @router.opened(backend, request)
          placed = true
        end
        replace(*replaced, backend.server) if replaced
        redefined(outdated, changed) if changed
        Patrol.watch(self) unless @pooled
        go_on(backend)
      rescue PG::ServerError, ConfigurationError
        raise # the server answers: others may want something else of it
      rescue => unreachable
        raise
      ensure
        unless placed
          backend&.close
          @lock.synchronize { @router.not_opened(request, unreachable) }
        end
      end

      # New connections mean something else by the same statement: those of before serve nothing more.
      def redefined(idle, what)
        idle.each(&:close)
        say("what the server sets for new connections has changed (#{what}): all connections are replaced")
      end

      # The server's role has changed, under its connections.
      def left
        replace(*@lock.synchronize { [@hosts.leave, @router.outdate] })
      end

      def replace(before, idle, server = nil)
        idle.each(&:close)
        @catalogue&.outdate
        say("#{server || "another one"} answers now, where #{before} did: all connections are replaced")
      end

      def settle(backend)
        if backend.idle? && backend.broken.nil?
          return backend.put_off if backend.asking
          return discard(backend) if backend.stale || backend.transaction_status != PG::PQTRANS_IDLE
          return in_background { restore(backend, false, audit: true) } if (backend.suspect || overdue?(backend)) && reserve(backend) { backend.idle? && backend.holder != :restore }
        end
        @lock.synchronize { @router.settle(backend) }
        go_on(backend)
      end

      # Under load no connection may ever be idle when {Patrol} comes.
      def overdue?(backend) = Scheduler.current && now - backend.audited_at > AUDIT_EVERY

      # To look at it, or clean it, if that is still to be done.
      # @yieldreturn [Boolean] whether it is
      # @return [Boolean]
      def reserve(backend)
        @lock.synchronize { backend.broken.nil? && yield && @router.hold(backend, :restore) && true }
      end

      def ended(backend, statement, shared)
        if statement.error && shared && statement.resend?
          statement.audit_by(@audit.sql) if @audits_all
          backend.push(statement)
        elsif (original = statement.audited)
          audited(backend, original, statement) if original.check.equal?(statement)
        elsif statement.check.nil? || statement.abandoned?
          over(backend, statement)
        end
      end

      # Its answer is told, unless that is that it was cancelled for others.
      def over(backend, statement)
        return conclude(statement) unless backend.relieving && statement.cancelled? && !statement.abandoned?
        @relief.displace(statement)
        statement.audit_by(@audit.sql) if @audits_all
        tend(backend) # no fiber may wait for what is left there
      end

      # An audit before it has ended the connection: it may have met with what that found.
      def undelivered(backend, statement)
        statement.fail(OutcomeUnknown.of(backend.broken)) unless statement.done?
      end

      # It is over, and what the connection keeps is known; or is not, where the question was cancelled.
      def audited(backend, statement, check)
        if check.error
          return backend.push(statement.audit_by(@audit.sql)) if backend.relieving && check.cancelled? # in the place of what ran before
          conclude(statement)
          return discard(backend)
        end
        difference = @audit.difference(backend.kept, @audit.read(check.value))
        over(backend, statement)
        return unless difference
        discard(backend)
        tell_leak(difference, statement.sql)
      end

      # A log that fails is no reason to keep a connection, nor to fail in the fiber that happens to read.
      def say(line)
        line = line.scrub("?").gsub(/\s*\n\s*/, " ") # texts may be of any bytes, and of several lines
        @log.call(line)
      rescue => error
        warn("NeverBlock: #{line} (the log that it was for failed: #{error.message})")
      end

      def tell_leak(what, sql = nil)
        say("a connection that is shared kept something, and is closed: #{what}#{". It was left by: #{sql.to_s[0, 200]}" if sql}")
      end

      # What has just got its place is sent by whoever made it, if that is the same loop, else by its own fiber.
      def go_on(backend)
        return if backend.idle?
        return backend.wake_all unless backend.loop.equal?(Scheduler.current)
        backend.flush
        backend.hand_over
      end

      def conclude(statement)
        learnt(statement.fingerprint) if statement.fingerprint && statement.ended_at && @timings.record(statement.fingerprint, statement.running_time, statement.longest_time)
        statement.finish
      end

      def learnt(shape) = @lock.synchronize { @router.learnt_fast(shape) }

      # No result that may come from behind the change is delivered.
      def leaked(backend, statements, what)
        first, *later = statements.map(&:awaited).uniq.reject(&:done?)
        conclude(first) if first
        later.each { |statement| statement.fail(OutcomeUnknown.of(ClosedError.new("the connection was closed, since a statement before has changed its state: #{what}"))) }
        discard(backend)
        say("a statement that shared a connection has changed its state: #{what}. The connection is closed. It was one of: " \
          "#{statements.map { |statement| statement.sql.to_s[0, 200].inspect }.join(", ")}")
      end

      # Whoever waited has been cancelled, timed out or killed.
      def leave(statement)
        statement.abandon
        backend = statement.backend
        return @lock.synchronize { @router.withdraw(statement) || @router.nudge } unless backend
        return if backend.broken || backend.holder.is_a?(Claim)
        settle(backend) if backend.withdraw(statement) || !statement.sent?
        tend(backend) # it may have been the last behind one that was left before
      end

      # The last who waited on it is gone, and what others have left behind on it is read by nobody.
      def tend(backend)
        return if backend.nil? || backend.idle? || !backend.deserted?
        free = reserve(backend) { !backend.idle? && backend.deserted? && !backend.holder.is_a?(Claim) && backend.holder != :restore }
        in_background { backend.inquiry ? discard(backend) : restore(backend, false) } if free # what it reports is in doubt
      end

      def forgo(claim)
        claim.abandon
        withdrawn = @lock.synchronize { @router.withdraw(claim) || (@router.nudge unless claim.backend) }
        settle(claim.backend) if !withdrawn && claim.backend
      end

      # All who waited had gone when it got its connection.
      def release_empty(batch)
        settle(batch.backend) if batch.backend.idle? && batch.backend.holder.equal?(batch)
      end

      def forgo_batch(batch)
        batch.abandon
        @lock.synchronize { @router.withdraw(batch) || @router.nudge }
      end

      # Ends what still runs on it, and makes it as it was when it was new.
      def restore(backend, discard, audit: false)
        @lock.synchronize { @router.hold(backend, :restore) }
        suspect = backend.suspect
        restored = Restoration.new(backend, discard, (@audit if audit || suspect), @catalogue) { |what| tell_leak(what, suspect) }.run
        restored ? settle(backend) : discard(backend)
      ensure
        discard(backend) if restored.nil?
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # The fiber that gave it back may be on its last legs. Where no other can be made, for there is no memory, it is done here.
      def in_background
        scheduler = Scheduler.current or return yield
        begun = false
        task = scheduler.background do
          begun = true
          yield
        end
        yield unless begun || task.alive?
      end
    end
  end
end
