# frozen_string_literal: true

# PostgreSQL; docs/architecture.md has the life of a statement:
#
#     postgres.rb             the public class
#     virtual_connection.rb   what adapters hold; virtual_connection/ has its parts, fair_lock.rb its lock
#     pipeline.rb             NeverBlock.pipeline; pipeline/ has the parts for Active Record, Sequel and tracers
#     databases.rb            one pool for all adapters of a configuration; sequel_pools.rb: Sequel's pools
#     options.rb              all options; option.rb, value_type.rb: what one is; deprecated_options.rb: old names
#     driver.rb, errors.rb, tracers.rb
#
#     What does a statement mean?
#     classifier.rb           reads its text; classification.rb: the outcome; lexer.rb: tokens
#     statement_scanner.rb    queries; commands.rb, settings.rb: other statements
#     functions.rb            PostgreSQL's harmless functions; extensions.rb, keywords.rb
#     catalogue.rb            what its text does not show: reach.rb; dependencies.rb: the query for it; revision.rb:
#                             what is new in it
#     sharing_policy.rb       shared, alone or leased? timings.rb: is it fast?
#
#     How does it get to the server and back?
#     multiplexer.rb          runs statements and leases; multiplexer/ has its parts
#     request.rb              a request for a place: statement.rb, batch.rb, checkout_request.rb,
#                             extra_connection_request.rb; outcome_note.rb: when its outcome is unknown
#     pool.rb                 the connections and the requests; backlog.rb: those that wait
#     router.rb               chooses a connection; router/ has its parts
#     pipelined_connection.rb a connection; pipelined_connection/ has its parts, wire.rb its messages, names.rb its
#                             prepared statements
#     fast_path.rb            a fast read while a connection is idle; read.rb: what was called
#     delivery.rb             hands results to fibers
#     lease.rb                exclusive use; holder.rb, holders.rb: their holders
#     local_result.rb         results that are made without the server
#
#     When does a statement or a wait take too long?
#     overtime.rb             query_timeout; overtime/ has its part for libpq
#     relief.rb               cancels what others wait for; cancellation.rb: how
#
#     What is a connection's session like?
#     session_defaults.rb     before it serves; local_settings.rb: settings of one transaction
#     upkeep.rb               between two users: session_reset.rb, resets.rb; audit.rb: is anything left?
#     guard.rb                leaks of shared statements; reported.rb: reported settings; inquiry.rb: why one changed
#     definitions.rb          after changes of tables and functions; alteration.rb: has a statement changed one?
#
#     How do connections begin and end?
#     connection_factory.rb   opens them; safety_checks.rb, pgbouncer.rb: checks; backoff.rb: pauses after failures
#     server_history.rb       is it the same server? server.rb; server_defaults.rb: has it other settings now?
#     lifespan.rb             limits; age.rb, turnover.rb: the old ones; warm_start.rb: in advance
#     janitor.rb              looks after idle ones; background.rb: tasks
#
#     roster.rb, snapshot.rb, tally.rb: figures; journal.rb: log lines; excerpt.rb: a statement in a line

require_relative "postgres/driver"
NeverBlock::Postgres::Driver.load
require_relative "runtime"

module NeverBlock
  # PostgreSQL for thousands of fibers over a few connections, which statements of different fibers share by pipelining.
  #
  #   database = NeverBlock::Postgres.new("postgres:///shop", connections: 12)
  #   NeverBlock.run do
  #     1_000.times.map { |id| NB.spawn { database.exec("select * from products where id = $1", [id]) } }
  #   end
  #   database.transaction do |connection|
  #     connection.exec("update accounts set credit = credit - 1")
  #   end
  #
  # Only statements that are provably harmless are shared: docs/postgres.md.
  class Postgres
    require_relative "runtime/processor_share"
    require_relative "postgres/errors"
    require_relative "postgres/options"
    require_relative "postgres/deprecated_options"
    require_relative "postgres/classification"
    require_relative "postgres/lexer"
    require_relative "postgres/functions"
    require_relative "postgres/classifier"
    require_relative "postgres/local_result"
    require_relative "postgres/audit"
    require_relative "postgres/local_settings"
    require_relative "postgres/safety_checks"
    require_relative "postgres/session_defaults"
    require_relative "postgres/tally"
    require_relative "postgres/holder"
    require_relative "postgres/request"
    require_relative "postgres/alteration"
    require_relative "postgres/statement"
    require_relative "postgres/read"
    require_relative "postgres/checkout_request"
    require_relative "postgres/server"
    require_relative "postgres/server_history"
    require_relative "postgres/pgbouncer"
    require_relative "postgres/batch"
    require_relative "postgres/pipeline"
    require_relative "postgres/names"
    require_relative "postgres/inquiry"
    require_relative "postgres/wire"
    require_relative "postgres/reported"
    require_relative "postgres/pipelined_connection"
    require_relative "postgres/server_defaults"
    require_relative "postgres/age"
    require_relative "postgres/lifespan"
    require_relative "postgres/connection_factory"
    require_relative "postgres/sharing_policy"
    require_relative "postgres/catalogue"
    require_relative "postgres/timings"
    require_relative "postgres/backoff"
    require_relative "postgres/cancellation"
    require_relative "postgres/relief"
    require_relative "postgres/overtime"
    require_relative "postgres/overtime/lookout"
    require_relative "postgres/router"
    require_relative "postgres/resets"
    require_relative "postgres/session_reset"
    require_relative "postgres/fair_lock"
    require_relative "postgres/lease"
    require_relative "postgres/janitor"
    require_relative "postgres/guard"
    require_relative "postgres/holders"
    require_relative "postgres/backlog"
    require_relative "postgres/journal"
    require_relative "postgres/background"
    require_relative "postgres/definitions"
    require_relative "postgres/extra_connection_request"
    require_relative "postgres/pool"
    require_relative "postgres/upkeep"
    require_relative "postgres/warm_start"
    require_relative "postgres/turnover"
    require_relative "postgres/delivery"
    require_relative "postgres/fast_path"
    require_relative "postgres/snapshot"
    require_relative "postgres/roster"
    require_relative "postgres/multiplexer"
    require_relative "postgres/tracers"
    require_relative "postgres/virtual_connection"

    # Takes options by their old names too, until 0.4: {DeprecatedOptions}.
    # @see #initialize
    # @return [Postgres]
    def self.new(target, **options)
      super(target,
        **DeprecatedOptions.rename(options) { |line| options.fetch(:log, Options.default(:log)).call(line) })
    end

    # docs/postgres.md explains each option.
    # @param target [String, Hash, #call] as PG.connect takes it, or a callable that returns a new PG::Connection
    # @param options [Hash{Symbol=>Object}] of {Options}
    # @option options [Integer] :connections (12) maximum number of connections of this process
    # @option options [Integer] :min_connections (0) number of connections opened in the background, and kept open
    # @option options [:reads, :all, false] :multiplex (:reads) what shares connections: reads, writes too, or nothing
    # @option options [Array<String>] :shareable_functions ([]) own functions that neither write nor use the session
    # @option options [Integer] :max_waiting (20_000) maximum number of statements that wait for a connection
    # @option options [Numeric, nil] :timeout (5) seconds to wait for a connection; nil: no limit
    # @option options [Numeric, false, nil] :query_timeout (nil) seconds that a statement may run before the server is
    #   asked to cancel it
    # @option options [Numeric, false, nil] :max_age (nil) seconds after which a connection is replaced
    # @option options [Numeric, false, nil] :idle_timeout (nil) seconds without use after which a connection is closed
    # @option options [Numeric, Boolean, nil] :keepalive (nil) seconds of silence after which a connection is probed
    # @option options [Numeric] :pool_jitter (0.2) random part of `max_age` and `keepalive`, from 0 to 1
    # @option options [:transaction, :session, nil] :pgbouncer (nil) pool mode of the PgBouncer that the target leads
    #   to; nil: to none
    # @option options [String, Hash, #call, nil] :session_url (nil) PostgreSQL itself, for what needs a session
    # @option options [Integer] :session_connections (2) maximum number of connections by `session_url`
    # @option options [Boolean] :audit (false) whether session state is audited after each statement: for test suites
    # @option options [Array<String>] :audit_settings ([]) custom settings, such as "app.tenant", that audits read too
    # @option options [String, nil] :name (nil) in figures and metrics; nil: the database's name, with its host
    # @option options [#call] :log gets lines for the log; the default writes to $stderr
    # @option options [Boolean] :warm (true) whether `min_connections` are opened now; false: with the first statement
    #   in a loop, or in a thread other than the main one
    # @raise [ConfigurationError] for an unknown option, an invalid value, or two options that exclude each other
    def initialize(target, **options)
      options = Options.complete(options)
      multiplex, session_url = options.values_at(:multiplex, :session_url)
      @policy = SharingPolicy.new(multiplex)
      @classifier = Classifier.new(shareable_functions: options[:shareable_functions])
      @types = {}
      Tracers.look
      options = {**options, name: options[:name] || Roster.name_of(target), shareable: @classifier.shareable}
      if session_url
        sessions = Multiplexer.new(-> { open_connection(session_url) }, shares: false, **PgBouncer.sessions(options))
      end
      @multiplexer = Multiplexer.new(-> { open_connection(target) }, shares: multiplex != false, sessions:, **options)
    end

    # Times that `retry: true` executes a statement again.
    RETRIES = 2

    # @param sql [String] one statement
    # @param params [Array] for $1, $2 …
    # @param options [Hash] `retry: true` says that the statement may be executed twice. If its connection is lost while
    #   it is in flight, so that its outcome is unknown, it is sent again on another connection, at most twice. Other
    #   errors (the server's, timeouts, connections that can't be opened) are not retried
    # @return [PG::Result]
    # @raise [PG::Error] the server's error; {OutcomeUnknown} if the connection was lost meanwhile
    # @raise [PoolTimeout] if no connection was free in time
    # @raise [QueryTimeout, UnconfirmedTimeout] if it ran for longer than `query_timeout`
    def exec(sql, params = nil, **options)
      return exec_again(sql, params, **options) unless options.empty?
      classification = @classifier.call(sql)
      return share(sql, params, classification) if Scheduler.current && sessionless?(classification) && !Tracers.any?
      connect { |connection| params ? connection.exec_params(sql, params) : connection.exec(sql) }
    end

    # Runs a transaction: it is committed at the block's end, and rolled back if the block is left in any other way.
    # @yieldparam connection [VirtualConnection] a PG::Connection
    # @return [Object] the block's value
    # @raise [PG::InFailedSqlTransaction] if a statement failed and the block rescued that: PostgreSQL has rolled back
    def transaction
      connection = connection()
      connection.exec("BEGIN")
      value = yield connection
      commit(connection)
      value
    ensure
      done_with(connection) # rolls back what is not committed
    end

    # Runs a transaction with settings that end with it: for tenants by role, by schema, or by row-level security.
    #
    #   database.with_settings(role: "tenant_7", search_path: "tenant_7") { |connection| … }
    #   database.with_settings("app.tenant" => 7) { |connection| connection.exec("select * from orders") }
    #
    # @param settings [Hash{String, Symbol=>Object}]
    # @yieldparam connection [VirtualConnection] a PG::Connection
    # @return [Object] the block's value
    # @raise [ConfigurationError] if a name can't be a setting's
    def with_settings(settings)
      statements = LocalSettings.statements(settings)
      transaction do |connection|
        statements.each { |sql| connection.exec(sql) }
        yield connection
      end
    end

    # Yields a PG::Connection, for several statements and for session state.
    # @yieldparam connection [VirtualConnection]
    # @return [Object] the block's value
    def connect
      connection = connection()
      yield connection
    ensure
      done_with(connection)
    end

    # Like {#connect}, but its statements never share: they run on one real connection, which is reset afterwards. For
    # session state that neither the text of a statement nor the catalogue shows, such as a variable of PL/Perl.
    # @yieldparam connection [VirtualConnection]
    # @return [Object] the block's value
    def without_multiplexing
      connect { |connection| connection.without_multiplexing { yield connection } }
    end

    # @api private
    # @return [Hash] the type maps that adapters of this database share
    def types = @types[@multiplexer.clusters] ||= {}

    # @api private
    # @param kind [Class] its class
    # @return [VirtualConnection, Virtual]
    def connection(kind = VirtualConnection, member: false)
      Virtual.open(kind, @multiplexer, @classifier, policy: @policy, member:)
    end

    # @api private
    # @return [Multiplexer] that runs its statements
    attr_reader :multiplexer

    # @api private
    # @param limits [Hash{Symbol=>Numeric}] an adapter's defaults, for limits that were not given
    # @return [void]
    def default(limits) = @multiplexer.lifespan.default(limits)

    # @api private
    # @param reaper [#call] called while a request waits for a connection: checks in those of ended fibers and threads
    def reaper=(reaper)
      @multiplexer.reaper = reaper
    end

    # Figures of its connections; also in {NeverBlock.stats}`[:postgres]`, by its {#name}.
    # @return [Hash{Symbol=>Object}] :size, :connections, :idle, :busy and others: docs/postgres.md lists them
    def stats = @multiplexer.stats

    # @return [String] unique among the open ones of the process
    def name = @multiplexer.name

    # Closes all connections. Statements in flight fail.
    # @return [void]
    def close = @multiplexer.close

    # @return [String]
    def inspect = "#<NeverBlock::Postgres #{@multiplexer.summary}>"

    private

    def exec_again(sql, params, retry: false)
      left = binding.local_variable_get(:retry) ? RETRIES : 0 # `retry` is a keyword of Ruby
      begin
        exec(sql, params)
      rescue OutcomeUnknown
        raise if left.zero? || UnconfirmedTimeout === $!
        left -= 1
        @multiplexer.tally.unknown += 1
        retry
      end
    end

    # Closes it, so that a reference which outlives the block can't lease a real connection for good.
    def done_with(connection)
      connection.finish unless connection.nil? || connection.finished?
    end

    def commit(connection)
      return unless connection.exec("COMMIT").cmd_status == "ROLLBACK"
      raise PG::InFailedSqlTransaction,
        "the transaction was rolled back, not committed: a statement in it had failed, and its error was rescued\n"
    end

    def open_connection(target)
      pg = Tracers.hide(target.respond_to?(:call) ? target.call : PG.connect(target))
      @classifier.server_version = pg.server_version
      pg
    end

    # @return [Boolean] whether the statement needs no virtual connection: it depends on no session
    def sessionless?(classification)
      (classification.kind == :read || classification.kind == :write) && !classification.currval &&
        @policy.placed?(classification)
    end

    def share(sql, params, classification)
      if classification.kind == :read && (params.nil? || Array === params) && @multiplexer.at_once?(classification)
        result = @multiplexer.fast_path.run(Read.new(sql, params || Statement::NONE, 0, nil, classification.fingerprint,
          SessionDefaults::EMPTY, nil, 0.0, nil, nil))
      end
      result || share_anyhow(sql, params, classification)
    end

    def share_anyhow(sql, params, classification)
      sql, params = Statement.own(sql), Statement.own(params || Statement::NONE)
      doubt = @multiplexer.catalogue&.doubt(sql, classification, SessionDefaults::EMPTY)
      fingerprint = (classification.fingerprint if @policy.shares?(classification, doubt))
      alone = !(fingerprint && @multiplexer.timings.fast?(fingerprint))
      kind = classification.kind
      @multiplexer.run(
        Statement.new(sql, params, session_defaults: SessionDefaults::EMPTY, fingerprint:, alone:, kind:, doubt:,
          judged: @multiplexer.judges?(kind))
      )
    end
  end
end
