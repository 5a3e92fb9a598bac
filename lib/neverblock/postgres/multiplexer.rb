# frozen_string_literal: true

require_relative "multiplexer/lifecycle"
require_relative "multiplexer/sampling"

module NeverBlock
  class Postgres
    # Runs the statements of many fibers on the few connections of one process to one database.
    #
    #   multiplexer = Multiplexer.new(-> { PG.connect(url) }, connections: 12)
    #   multiplexer.run(Statement.new("select 1", session_defaults: SessionDefaults::EMPTY))
    #   lease = multiplexer.lease(SessionDefaults::EMPTY, purpose: "BEGIN")
    #
    # {Pool} owns the connections and finds places on them. {Delivery} hands results to the fibers that wait. {Upkeep}
    # looks after a connection between two users. {Relief} cancels statements that block others. {Definitions}
    # invalidates what DDL has changed. {Lifecycle} and {Sampling} are parts of it. The words (shared, alone, lease …)
    # are in docs/postgres.md, "Terms".
    # @api private
    class Multiplexer
      include Lifecycle
      include Sampling

      # Statements in flight on one shared connection.
      MAX_DEPTH = 64

      # @param connect [#call] returns a new PG::Connection
      # @param depth [Integer] maximum number of statements in flight on a shared connection
      # @param shares [Boolean] whether statements share connections
      # @param sessions [Multiplexer, nil] for statements that need a session, where PgBouncer gives none
      # @param shareable [Array<String>] the user's functions that are known to leave no session state
      # @param options [Hash{Symbol=>Object}] of {Options}; `name:` is unique in the process: {Roster}
      # @raise [ConfigurationError]
      def initialize(connect, depth: MAX_DEPTH, shares: true, sessions: nil, shareable: [], **options)
        options = Options.complete(options)
        pgbouncer, @query_timeout, @always, @log = options.values_at(:pgbouncer, :query_timeout, :audit, :log)
        @limits = {**options.slice(:connections, :max_waiting, :timeout), shares:}
        @audit = Audit.new(settings: options[:audit_settings])
        @lifespan = Lifespan.new(**options)
        @factory = ConnectionFactory.new(connect, audit: @audit, depth:, lifespan: @lifespan, shares:, pgbouncer:,
          compares: shareable.any?)
        @server_history = ServerHistory.new
        @pooled = pgbouncer == :transaction
        @sessions = sessions
        @shareable = shareable
        @reaper = nil
        start
        Roster.join(self, options[:name] || "postgres") { |own| @name = own }
        Forks.watch(self)
        warm_up if options[:warm] && @cold
      end

      # @return [String] unique among the open multiplexers of the process
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

      # Runs a statement outside a lease. Call it from a fiber of a loop.
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
      rescue Exception # standard:disable Lint/RescueException -- re-raised, with a note
        OutcomeNote.add($!) if statement.effect_unknown?
        raise
      ensure
        statement.done? ? @upkeep.tend(statement.connection) : leave(statement)
      end

      # @param classification [Classification] of a read
      # @return [Boolean] whether {#fast_path} may run it
      def at_once?(classification) = !@always && !@cold && @fast_path.open?(classification)

      # @return [FastPath]
      attr_reader :fast_path

      # Knows which statements may leave session state although their text does not show it. Such a statement runs
      # alone, and its connection is reset before it serves anything else.
      # @return [Catalogue, nil] nil behind a PgBouncer in transaction mode, where sessions are not ours
      attr_reader :catalogue

      # @param kind [Symbol] of a {Classification}
      # @return [Boolean] whether all that such statements reach is known, with the {#catalogue}'s doubt. Behind a
      #   PgBouncer in transaction mode reads are trusted
      def judges?(kind) = @catalogue ? SharingPolicy.kind(kind).judged : kind == :read

      # @return [Integer] how many database clusters the connections have reached so far, one after the other
      def clusters = @server_history.clusters

      # @return [Boolean] whether sessions end with each transaction, as PgBouncer's transaction mode has it
      def pooled? = @pooled

      # @param what [String] the operation that needs a session, for the message
      # @return [Multiplexer] self, or the one of `session_url:`
      # @raise [ConfigurationError] without a `session_url:`
      def with_sessions(what) = @pooled ? @sessions || raise(PgBouncer.no_session(what)) : self

      # Finds a place for all statements of a batch, or fails them.
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

      # Checks out a connection for exclusive use.
      # @param session_defaults [SessionDefaults]
      # @param purpose [String] the lease's purpose, for messages
      # @param opening [Boolean] whether a transaction begins with it
      # @param urgent [Boolean] whether it may be the connection that is left to share
      # @return [Lease]
      # @raise [PG::Error, PoolTimeout]
      def lease(session_defaults, purpose:, opening: false, urgent: false)
        @pool.check
        # A script, a console or a task of rake needs one connection.
        warm_up if @cold && (Scheduler.current || Thread.current != Thread.main)
        lease = check_out(session_defaults, purpose, opening, urgent) until lease&.connection&.alive?
        whole = lease
      ensure
        lease&.give_back unless whole
      end

      # Logs that a lease has lasted until check-in because of session state.
      # @param lease [Lease]
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

      # @return [Lifespan] of the connections
      attr_reader :lifespan

      # Callback of {PipelinedConnection}: the results of these statements have arrived.
      # @return [void]
      def finished(connection, statements) = @delivery.finished(connection, statements)

      # Callback of {PipelinedConnection}: the result of its only statement has arrived.
      # @return [void]
      def exchanged(connection, statement) = @delivery.exchanged(connection, statement)

      # Callback of {PipelinedConnection}: the connection is lost; these statements were not sent.
      # @return [void]
      def lost(connection, unsent) = @delivery.lost(connection, unsent)

      # @return [Hash{Symbol=>Object}] of {Snapshot}; with `session_url:` also `:sessions`, the size of that
      def stats
        own = Snapshot.new(@pool, @tally, @timings).to_h
        @sessions ? own.merge(sessions: @sessions.pool.stats[:connections]) : own
      end

      # @return [String] the counts, for {#inspect}
      def summary = {**@pool.stats, displaced: @tally.displaced}.map { |name, count| "#{name} #{count}" }.join(", ")

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Multiplexer #{summary}>"

      # The fiber of a statement was cancelled, timed out or killed.
      # @param statement [Statement]
      # @return [void]
      def leave(statement)
        statement.abandon
        connection = statement.connection
        return @pool.withdraw(statement) unless connection
        return if connection.broken || connection.leased?
        @upkeep.settle(connection) if connection.withdraw(statement) || !statement.sent?
        @upkeep.tend(connection) # this may have been its last waiting fiber
      end

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
        log, later = @journal.method(:say), Background.method(:run)
        unless @pooled
          @catalogue = Catalogue.new(shareable: @shareable, log:, later:) { |sql, defaults| question(sql, defaults) }
        end
        @pool = Pool.new(self, @factory, @server_history, timings: @timings, journal: @journal, tally: @tally,
          **@limits) { @catalogue&.outdate }
        @definitions = Definitions.new(@pool, @catalogue)
        @upkeep = Upkeep.new(@pool, @journal, audit: @audit, definitions: @definitions, catalogue: @catalogue,
          tally: @tally, always: @always, pooled: @pooled)
        @warm_start = WarmStart.new(@pool, @lifespan, @journal)
        cool_down
        @turnover = Turnover.new(@pool, @upkeep, @lifespan, @warm_start)
        cancellation = Cancellation.new(@upkeep)
        @relief = Relief.new(@pool, cancellation, @timings, @tally)
        limited = @query_timeout&.positive? && @query_timeout.finite?
        @overtime = (Overtime.new(@query_timeout, @pool, @upkeep, cancellation, @tally) if limited)
        @fast_path = FastPath.new(self, @pool, @upkeep, timings: @timings, tally: @tally, catalogue: @catalogue,
          overtime: @overtime)
        @delivery = Delivery.new(@pool, @upkeep, @relief, @journal, timings: @timings, tally: @tally,
          definitions: @definitions, audit: @audit, overtime: @overtime, always: @always, asks: !@pooled)
      end

      # Reads the catalogue. It changes nothing, so it is repeated if its connection is lost.
      def question(sql, session_defaults, left = RETRIES)
        run(Statement.new(sql, session_defaults:, opening: Catalogue::OPENING, alone: true, judged: true)
          .tap { |statement| statement.gathered = false })
      rescue OutcomeUnknown
        raise if left.zero?
        question(sql, session_defaults, left - 1)
      end

      def check_out(session_defaults, purpose, opening, urgent)
        request = CheckoutRequest.new(session_defaults, purpose, opening:, urgent:)
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

      # The fiber of a checkout request or a batch was cancelled, timed out or killed.
      def forgo(request)
        request.abandon
        withdrawn = @pool.withdraw(request)
        @upkeep.settle(request.connection) if !withdrawn && request.connection
      end

      # No statement of the batch was waiting any more when it got its connection.
      def release_empty(batch)
        @upkeep.settle(batch.connection) if batch.connection.idle? && batch.connection.holder.equal?(batch)
      end
    end
  end
end
