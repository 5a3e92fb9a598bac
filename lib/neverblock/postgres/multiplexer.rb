# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The connections of a process to one database, and the statements of many fibers on them.
    #
    #   multiplexer = Multiplexer.new(-> { PG.connect(url) }, connections: 12)
    #   multiplexer.run(Statement.new("select 1", session_defaults: SessionDefaults::EMPTY))
    #   lease = multiplexer.lease(SessionDefaults::EMPTY, purpose: "BEGIN")
    #
    # Its parts: {Pool} has the connections and finds places on them, {Delivery} tells the answers, {Upkeep} takes care of a connection
    # between its users, {Relief} cancels what others wait for, {Definitions} says what a definition makes void.
    # @api private
    class Multiplexer
      # Statements on one shared connection.
      MAX_DEPTH = 64

      # @param connect [#call] returns a new PG::Connection
      # @param connections [Integer] at most
      # @param depth [Integer] statements on a shared connection
      # @param max_waiting [Integer] statements that wait for a connection, at most
      # @param timeout [Numeric, nil] seconds that one waits for a connection at most; while statements that share get places, the others
      #   that share wait on
      # @param shares [Boolean] whether statements share connections
      # @param audit [Boolean] whether that is looked for after each statement too
      # @param audit_settings [Array<String>] names of custom settings that are looked at
      # @param pgbouncer [:transaction, :session, nil] what is between
      # @param sessions [Multiplexer, nil] for what needs a session, if that is none
      # @param shareable [Array<String>] functions of the user's that are known to leave nothing in their session
      # @param name [String] among those of the process: {Roster}
      # @param log [#call] gets lines for the log
      # @param query_timeout [Numeric, nil] seconds that a statement may run
      # @param warm [Boolean] whether connections that are to be kept are opened now
      # @param life [Hash{Symbol=>Numeric}] options of {Lifespan}
      def initialize(connect, connections:, depth: MAX_DEPTH, max_waiting: Backlog::MAX_WAITING, timeout: Backlog::TIMEOUT, shares: true, audit: false, audit_settings: [], pgbouncer: nil, sessions: nil, shareable: [], name: "postgres", log: ->(line) { warn("NeverBlock: #{line}") }, query_timeout: nil, warm: false, **life)
        @limits = {connections: Options.positive("connections", connections), shares:, max_waiting: Options.positive("max_waiting", max_waiting), timeout: Options.seconds("timeout", timeout)}
        @audit = Audit.new(settings: audit_settings)
        @lifespan = Lifespan.new(connections:, **life)
        @query_timeout = Options.seconds("query_timeout", query_timeout)
        @factory = ConnectionFactory.new(connect, audit: @audit, depth: Options.positive("depth", depth), lifespan: @lifespan, shares:, pgbouncer:)
        @server_history = ServerHistory.new
        @pooled = pgbouncer == :transaction
        @sessions = sessions
        @always = audit
        @shareable = shareable
        @log = log
        @reaper = nil
        start
        Roster.join(self, name) { |own| @name = own }
        Forks.watch(self)
        warm_up if warm && @cold
      end

      # @return [String] that no other open one of the process has
      attr_reader :name

      # @return [Tally]
      attr_reader :tally

      # @return [Boolean]
      def closed? = @pool.closed?

      # @return [Timings]
      attr_reader :timings

      # @return [Pool]
      attr_reader :pool

      # @param reaper [#call] as {Backlog#reaper}
      def reaper=(reaper)
        @pool.backlog.reaper = @reaper = reaper
      end

      # Runs a statement outside of any lease, from a fiber of a loop.
      # @param statement [Statement]
      # @return [PG::Result]
      # @raise [PG::Error, PoolTimeout]
      def run(statement)
        @pool.check
        warm_up if @cold
        @delivery.audit(statement)
        until statement.done?
          next place(statement) unless statement.connection
          @overtime&.watch
          statement.connection.complete(statement, flush_now: @pool.any_idle?)
        end
        statement.value
      rescue Exception # standard:disable Lint/RescueException -- it goes on, and says more
        OutcomeNote.add($!) if statement.in_doubt?
        raise
      ensure
        statement.done? ? @upkeep.tend(statement.connection) : leave(statement)
      end

      # A read that is harmless and known to be fast, where a connection is idle: there is nothing to arrange, nothing to wait for but
      # its answer.
      # @param classification [Classification] of a read
      # @return [Boolean] whether {#run_at_once} may do it
      def at_once?(classification)
        @pool.any_idle? && @timings.fast?(classification.fingerprint) && !@always && !@cold && (@catalogue.nil? || @catalogue.harmless?(classification.fingerprint)) && !Pipeline.current
      end

      # @param statement [Statement] see {#at_once?}
      # @return [PG::Result, nil] nil: it is to be {#run}
      # @raise [PG::Error, PoolTimeout]
      def run_at_once(statement)
        connection = @pool.lend(statement) or return
        @overtime&.watch
        @pool.call_in(connection) unless connection.exchange_lent(statement)
        usual = !statement.done? # it was not sent, or is to be sent again
        usual ? run(statement) : statement.value
      ensure
        leave(statement) if connection && !usual && !statement.done?
      end

      # Whether a statement may leave something in its session though its text does not say so: then it runs alone, and its connection is
      # made as it was before it serves anything else.
      # @return [Catalogue, nil] none through a PgBouncer in transaction mode, where sessions are not ours
      attr_reader :catalogue

      # @return [Integer] how many clusters its connections have led to, one after the other
      def clusters = @server_history.clusters

      # @return [Boolean] whether its connections keep nothing beyond a transaction
      def pooled? = @pooled

      # @param what [String] what needs a session
      # @return [Multiplexer] whose connections have one
      # @raise [ConfigurationError] if there is none
      def with_sessions(what) = @pooled ? @sessions || raise(PgBouncer.no_session(what)) : self

      # Statements whose fibers wait for a place get one, or are told why not.
      # @param batch [Batch]
      # @return [void]
      def place_all(batch)
        @pool.check
        find_place(batch) until batch.connection
        @pool.go_on(batch.connection)
      rescue => error
        batch.fail(error)
      ensure
        batch.connection ? release_empty(batch) : forgo(batch)
      end

      # A connection of one's own.
      # @param session_defaults [SessionDefaults]
      # @param purpose [String] what it is wanted for, for messages
      # @param opening [Boolean] whether a transaction begins with that
      # @return [Lease]
      # @raise [PG::Error, PoolTimeout]
      def lease(session_defaults, purpose:, opening: false)
        @pool.check
        warm_up if @cold && (Scheduler.current || Thread.current != Thread.main) # a script, a console or a task of rake needs one connection
        lease = check_out(session_defaults, purpose, opening) until lease&.connection&.alive?
        whole = lease
      ensure
        lease&.give_back unless whole
      end

      # Whether the server can be talked to, as far as sockets tell.
      # @return [void]
      # @raise [PG::Error] where no connection is open any more, and none can be opened
      def verify
        @pool.check
        return if @pool.connections.dup.any? { |connection| connection.alive?(look: true) }
        @first.call(:verify) { open_one(SessionDefaults::EMPTY) }
      end

      # @param session_defaults [SessionDefaults, nil] whose encoding matters, or nothing
      # @param whole [Boolean] whether all of them does
      # @param settings [Array<String>] that are reported, and are to be as the session defaults have them, whatever those who lease it have set
      # @yieldparam pg [PG::Connection] one of the connections, for what asks nothing of the server
      # @return [Object] the block's value
      def sample(session_defaults = nil, whole: false, settings: Statement::NONE)
        @pool.check
        fits = ->(other) { session_defaults.nil? || (whole ? other == session_defaults : other.encoding == session_defaults.encoding) }
        plain = ->(candidate) { settings.empty? || candidate.holder.nil? || candidate.reported.leak(settings).nil? }
        until (connection = @pool.connections.find { |candidate| candidate.broken.nil? && fits.call(candidate.session_defaults) && plain.call(candidate) })
          @first.call(whole ? session_defaults : session_defaults&.encoding) { open_one(session_defaults || SessionDefaults::EMPTY) } # one for all who ask now
        end
        yield connection.pg
      end

      # What needs no server is answered here, once there is a connection.
      # @param tag [String] such as "BEGIN"
      # @return [PG::Result]
      def local_result(tag)
        connection = @pool.connections.find { |candidate| candidate.broken.nil? }
        connection ? local_result_from(connection.pg, tag) : sample { |pg| local_result_from(pg, tag) }
      end

      # @param lease [Lease] that has kept something until check-in
      # @return [void]
      def note(lease) = @journal.held_until_check_in(lease.state)

      # @param connection [PipelinedConnection] whose lease is over: see {Upkeep#give_back}
      # @return [void]
      def give_back(connection, **left) = @upkeep.give_back(connection, **left)

      # @param connection [PipelinedConnection] whose lease is over: see {Upkeep#retire}
      # @return [void]
      def retire(connection, busy:) = @upkeep.retire(connection, busy:)

      # @return [Definitions]
      attr_reader :definitions

      # @return [Overtime, nil] the limit for statements
      attr_reader :overtime

      # @return [Lifespan] of its connections
      attr_reader :lifespan

      # There is a new connection.
      # @return [void]
      def opened
        Janitor.watch(self) unless @pooled
        Janitor.watch(@turnover) if @lifespan.any?
        @warm_start.begin
      end

      # A {PipelinedConnection}'s statements whose answers have come.
      # @return [void]
      def finished(connection, statements) = @delivery.finished(connection, statements)

      # A {PipelinedConnection}'s statement, which had it by itself, has its answer.
      # @return [void]
      def exchanged(connection, statement) = @delivery.exchanged(connection, statement)

      # A {PipelinedConnection} is gone; these were not sent.
      # @return [void]
      def lost(connection, unsent) = @delivery.lost(connection, unsent)

      # A virtual connection of it is kept by an application.
      # @return [void]
      def joined
        @sessions&.joined
        @lock.synchronize { @members += 1 }
      end

      # It was closed. With the last one go the connections that nothing uses, as a pool's would: DROP DATABASE wants none.
      # @return [void]
      def parted
        @sessions&.parted
        return unless @lock.synchronize { @members -= 1 } == 0
        cool_down
        @pool.rest
      end

      # Closes all connections. Statements under way fail.
      # @return [void]
      def close
        @sessions&.close
        @pool.close
      end

      # @return [Float] when {Janitor} comes next
      attr_accessor :due

      # @return [Integer] seconds
      def every = Janitor::INTERVAL

      # From {Janitor}'s thread.
      # @return [Boolean] whether it is to be done again
      def look_around
        @catalogue&.expire
        @upkeep.look_around
        !@pool.closed?
      end

      # A forked child has none of its parent's connections.
      # @return [void]
      def disown
        @factory.disown
        @pool.connections.each(&:disown)
        closed = @pool.closed?
        @turnover.end
        start
        @pool.close if closed
      end

      # @return [Hash{Symbol=>Object}] as {Snapshot} has it; with session_url: also :sessions, its connections
      def stats
        own = Snapshot.new(@pool, @tally, @timings).to_h
        @sessions ? own.merge(sessions: @sessions.pool.stats[:connections]) : own
      end

      # @return [String] in a few words
      def summary = {**@pool.stats, displaced: @tally.displaced}.map { |name, count| "#{name} #{count}" }.join(", ")

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Multiplexer #{summary}>"

      private

      def start
        @lock = Thread::Mutex.new
        @members = 0
        @local_results = {}
        @first = Flight.new(share: StandardError)
        @timings = Timings.new
        @tally = Tally.new
        @journal = Journal.new(@log, @tally)
        build
        @pool.backlog.reaper = @reaper
      end

      def build
        @catalogue = Catalogue.new(shareable: @shareable, log: @journal.method(:say), later: Background.method(:run)) { |sql, session_defaults| question(sql, session_defaults) } unless @pooled
        @pool = Pool.new(self, @factory, @server_history, timings: @timings, journal: @journal, tally: @tally, **@limits) { @catalogue&.outdate }
        @definitions = Definitions.new(@pool, @catalogue)
        @upkeep = Upkeep.new(@pool, @journal, audit: @audit, definitions: @definitions, catalogue: @catalogue, tally: @tally, always: @always, pooled: @pooled)
        @warm_start = WarmStart.new(@pool, @lifespan, @journal)
        cool_down
        @turnover = Turnover.new(@pool, @upkeep, @lifespan, @warm_start)
        cancellation = Cancellation.new(@upkeep)
        @relief = Relief.new(@pool, cancellation, @timings, @tally)
        @overtime = (Overtime.new(@query_timeout, @pool, @upkeep, cancellation, @tally) if @query_timeout&.positive? && @query_timeout.finite?)
        @delivery = Delivery.new(@pool, @upkeep, @relief, @journal, timings: @timings, tally: @tally, definitions: @definitions, audit: @audit, overtime: @overtime, always: @always, asks: !@pooled)
      end

      # The least number of connections is kept from now on.
      def warm_up
        @cold = false
        Janitor.watch(@turnover)
        @warm_start.activate
      end

      # They are not wanted before the next statement.
      def cool_down
        @warm_start.rest
        @cold = @lifespan.min_connections > 0
      end

      def local_result_from(pg, tag) = LocalResult.shared? ? @local_results[tag] ||= LocalResult.of(tag, pg) : LocalResult.of(tag, pg)

      # In a loop by a statement that shares: leases may have all connections but the one that is left for those.
      def open_one(session_defaults)
        return lease(session_defaults, purpose: "the first connection").give_back unless Scheduler.current
        run(Statement.new("SELECT 1", session_defaults:)).clear
      end

      # It may be asked again where its connection goes: it changes nothing.
      def question(sql, session_defaults, left = RETRIES)
        run(Statement.new(sql, session_defaults:, opening: Catalogue::OPENING, alone: true).tap { |statement| statement.gathered = false })
      rescue OutcomeUnknown
        raise if left.zero?
        question(sql, session_defaults, left - 1)
      end

      def check_out(session_defaults, purpose, opening)
        request = CheckoutRequest.new(session_defaults, purpose, opening:)
        find_place(request) until request.done?
        lease = Lease.new(self, request.connection, request)
      ensure
        forgo(request) unless lease
      end

      def place(statement)
        pipeline = Pipeline.current if statement.gathered.nil? && !statement.doubt
        pipeline ? pipeline.gather(self, statement) : find_place(statement)
      end

      def find_place(request)
        @pool.find_place(request) { @relief.watch }
      end

      # Its fiber has been cancelled, timed out or killed.
      def leave(statement)
        statement.abandon
        connection = statement.connection
        return @pool.withdraw(statement) unless connection
        return if connection.broken || connection.leased?
        @upkeep.settle(connection) if connection.withdraw(statement) || !statement.sent?
        @upkeep.tend(connection) # it may have been the last behind one that was left before
      end

      # The same, of a checkout request or a batch.
      def forgo(request)
        request.abandon
        withdrawn = @pool.withdraw(request)
        @upkeep.settle(request.connection) if !withdrawn && request.connection
      end

      # All that waited had gone when it got its connection.
      def release_empty(batch)
        @upkeep.settle(batch.connection) if batch.connection.idle? && batch.connection.holder.equal?(batch)
      end
    end
  end
end
