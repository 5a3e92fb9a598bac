# frozen_string_literal: true

# One process with four database clients (reads shared; everything shared and audited; Active Record; Sequel). Its
# fibers use every feature, while they are timed out, cancelled and killed:
#
#   ruby -Ilib -Itest test/support/long/database_client.rb URL FIBERS SEED [SESSION_URL]
#
# With SESSION_URL, URL leads to a PgBouncer in transaction mode.
#
# The program writes "ready" once its clients are connected. A line with a number of seconds on standard input begins a
# round; the next line says that the faults have ended. When all fibers have ended and all connections are idle, the
# program writes two lines of JSON: the outcome of each act with the errors found, and the resources that the process
# holds. It ends at the end of standard input.
require "json"
require "neverblock"
require "neverblock/postgres"
require "neverblock/active_record"
require "sequel"
require_relative "../clock"
require_relative "database_client/definitions"
require_relative "database_client/records"
require_relative "database_client/rest"
require_relative "database_client/sequel_acts"
require_relative "database_client/sessions"
require_relative "database_client/statements"
require_relative "database_client/transactions"

module NeverBlockTest
  # What runs the acts and records their outcomes. The acts, a method each, are in the folder database_client. Every act
  # uses a text of its own, so that a row of another fiber is recognized.
  class DatabaseClient
    include Clock
    include Statements
    include Definitions
    include Transactions
    include Sessions
    include Records
    include SequelActs
    include Rest

    ACTS = {
      read: 8, read_with_parameters: 8, read_of_nobody: 4, read_state: 4, slow: 1, large: 1, error: 2, several: 1,
      read_typed: 4, read_typed_shared: 2, migrate: 1, read_place: 3, read_locked: 3, parent: 2,
      write: 4, write_with_parameters: 4, write_shared: 4, read_audited: 3, commit: 4, roll_back: 2, raise_in_transaction: 2, error_in_transaction: 1, savepoint: 2, count: 3,
      set: 2, keep_in_function: 1, temporary_table: 2, advisory_lock: 2, cursor: 2, cursor_with_hold: 1, listen: 1, copy: 1, tenant: 5, role: 2,
      record_find: 6, record_create: 4, record_transaction: 4, record_lock: 2, record_insert_all: 1, record_tenant: 3, record_session: 1,
      sequel_find: 4, sequel_create: 3, sequel_transaction: 3
    }.flat_map { |act, weight| [act] * weight }.freeze

    TENANTS = 8

    # The state that a connection keeps, read through a view, so that the text does not reveal it; and that of a new
    # connection.
    STATE = "select tenant, login, waits, locks, tables from soak_state"
    FRESH = ["", "soak_app", "0", "0", "0"].freeze

    # An exception that a caller raises in its own block.
    class Enough < StandardError; end

    # Errors after which the outcome of a statement is unknown.
    OPEN = [NeverBlock::Postgres::OutcomeUnknown, NeverBlock::TimeoutError, ActiveRecord::ConnectionFailed].freeze
    # Errors after which a statement had no effect; the faults lead to some of them only.
    REFUSED = [PG::Error, NeverBlock::Postgres::PoolTimeout, ActiveRecord::ActiveRecordError, Sequel::Error].freeze
    EXPECTED = [PG::ConnectionBad, PG::UnableToSend, PG::QueryCanceled, PG::AdminShutdown, PG::CrashShutdown, PG::CannotConnectNow, PG::TooManyConnections,
      NeverBlock::Postgres::PoolTimeout].freeze

    # Acts whose outcomes are compared with the database.
    WRITING = %i[write write_with_parameters write_shared commit roll_back raise_in_transaction error_in_transaction savepoint count copy
      record_create record_transaction record_insert_all sequel_create sequel_transaction].freeze
    FAILING = %i[error error_in_transaction raise_in_transaction record_transaction sequel_transaction].freeze

    def initialize(url, fibers, seed, session_url = nil)
      @fibers = fibers
      @random = Random.new(seed)
      @prefix = "#{seed}-#{rand(1 << 30)}"
      @serial = 0
      @logged = []
      options = {timeout: 5, audit_settings: ["soak.tenant"], log: method(:logged)}
      @pooled = !session_url.nil?
      pooled = @pooled ? {pgbouncer: :transaction, session_url:} : {}
      @database = NeverBlock::Postgres.new("#{url}?application_name=soak_reads", connections: 5, **options, **pooled)
      @shared = NeverBlock::Postgres.new("#{url}?application_name=soak_all", connections: 3, multiplex: :all, audit: !session_url, **options, **pooled)
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
      uri = URI(url)
      ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", host: uri.host, port: uri.port, username: uri.user, database: uri.path.delete_prefix("/"),
        connections: 4, checkout_timeout: 5, audit_settings: ["soak.tenant"], application_name: "soak_records", min_messages: "error", **pooled)
      Sequel.extension(:fiber_concurrency)
      @sequel = Sequel.connect(adapter: "neverblock_postgres", host: uri.host, port: uri.port, user: uri.user, database: uri.path.delete_prefix("/"),
        connections: 3, pool_timeout: 5, audit_settings: ["soak.tenant"], client_min_messages: false, driver_options: {application_name: "soak_sequel"}, **pooled)
    end

    def call
      trap(:USR1) { @signals = @signals.to_i + 1 }
      trap(:USR2) { Thread.new { say_where } }
      print_line("ready")
      while (line = $stdin.gets)
        reset
        NeverBlock.run(on_error: method(:failed)) { round(now + Float(line)) }
        print_line(report)
        print_line(held)
      end
      close
    end

    private

    def print_line(value)
      $stdout.puts(JSON.generate(value))
      $stdout.flush
    end

    def reset
      @told = {}
      @done = Hash.new(0)
      @ended = Hash.new(0)
      @wrong = []
    end

    def logged(line) = @logged << line

    def failed(error) = @wrong << "a task: #{error.full_message(highlight: false)[0, 900]}"

    # Reports where each fiber is, to find out why the program hangs.
    def say_where
      fibers = ObjectSpace.each_object(Fiber).select(&:alive?).map { |fiber| fiber.backtrace.to_a.grep_v(/gems/).first(14) }
      lines = fibers.tally.sort_by(&:last).map { |places, count| "#{count} × #{places.join("\n  ")}" }
      $stderr.write([*databases.map(&:inspect), *lines, ""].join("\n")) # the program runs without warnings
    end

    # ---- a round ----

    # Each act is a task of its own, which may be cancelled or killed at any moment.
    def round(deadline)
      victims = {}
      @listeners = Thread::SizedQueue.new(2)
      hangman = NB.spawn { hunt(victims) until @over }
      @over = false
      NB.concurrently(Array.new(@fibers) { |number| number }, limit: @fibers) do |number|
        while now < deadline
          task = NB.spawn { act(ACTS.sample(random: @random)) }
          victims[number] = task
          task.join
          NB.pass
        end
      end
      @over = true
      hangman.join
      $stdin.gets # until the database has no more faults
      settle
      inspect_connections
      settle
    end

    # Random interruptions of the tasks.
    def hunt(victims)
      sleep 0.004 # real: statements that the database works on
      case @random.rand(400)
      when 0 then GC.compact
      when 1 then Process.kill(:USR1, Process.pid)
      end
      task = victims[@random.rand(@fibers)]
      return unless task&.alive?
      (@random.rand(4) == 0) ? task.fiber&.kill : task.cancel
    end

    # Does one act, perhaps with too short a timeout, and records its outcome.
    def act(kind)
      nonce = "#{kind}-#{@prefix}-#{@serial += 1}"
      told = ended = nil
      seconds = @random.rand(0.06) if @random.rand(10) == 0
      done = NB.timeout(seconds) { send(kind, nonce) }
      told = (done == :applied) ? "applied" : "not"
      ended = "done"
    rescue Enough, PG::DivisionByZero => error
      told = "not"
      ended = error.class.name
      @wrong << "#{kind}: #{error.message}" unless FAILING.include?(kind)
    rescue *OPEN => error
      ended = error.class.name
    rescue *REFUSED => error
      told = (causes(error).any? { |one| OPEN.any? { |open| open === one } }) ? "open" : "not"
      ended = error.class.name
      unexpected(kind, error) unless expected?(error)
    rescue => error
      ended = error.class.name
      unexpected(kind, error)
    ensure # perhaps cancelled or killed
      @ended[ended || "cancelled or killed"] += 1
      @done[kind] += 1 if ended == "done"
      @told[nonce] = told || "open" if WRITING.include?(kind)
    end

    def expected?(error)
      causes(error).any? { |one| EXPECTED.any? { |kind| kind === one } }
    end

    # Active Record wraps a driver's error once, Sequel up to twice.
    def causes(error) = error ? [error, *(causes(error.cause) if error.is_a?(ActiveRecord::ActiveRecordError) || error.is_a?(Sequel::Error))] : []

    def unexpected(kind, error) = @wrong << "#{kind}: #{error.full_message(highlight: false, order: :top)[0, 900]}"

    # ---- what is checked ----

    def own(nonce, answer)
      @wrong << "#{nonce} was given #{answer.inspect[0, 200]}" unless answer == nonce
    end

    def one(result) = result.getvalue(0, 0)

    def insert(nonce) = "insert into soak (nonce) values ('#{nonce}') returning nonce"

    # ---- the clients ----

    # @return [Array<NeverBlock::Postgres>] all clients of the process
    def databases = @databases ||= ObjectSpace.each_object(NeverBlock::Postgres).to_a

    def close
      @sequel.disconnect
      databases.each(&:close)
      ActiveRecord::Base.connection_handler.clear_all_connections!
    end
  end
end

if $PROGRAM_NAME == __FILE__
  url, fibers, seed, session_url = ARGV
  NeverBlockTest::DatabaseClient.new(url, Integer(fibers), Integer(seed), session_url).call
end
