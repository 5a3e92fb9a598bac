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

module NeverBlockTest
  # The acts, a method each. Every act uses a text of its own, so that a row of another fiber is recognized.
  class DatabaseClient
    include Clock

    ACTS = {
      read: 8, read_with_parameters: 8, read_of_nobody: 4, read_state: 4, slow: 1, large: 1, error: 2, several: 1,
      read_typed: 4, read_typed_shared: 2, migrate: 1, read_place: 3, read_locked: 3, parent: 2,
      write: 4, write_with_parameters: 4, write_shared: 4, read_audited: 3, commit: 4, roll_back: 2, raise_in_transaction: 2, error_in_transaction: 1, savepoint: 2, count: 3,
      set: 2, keep_in_function: 1, temporary_table: 2, advisory_lock: 2, cursor: 2, cursor_with_hold: 1, listen: 1, copy: 1, tenant: 5, role: 2,
      record_find: 6, record_create: 4, record_transaction: 4, record_lock: 2, record_insert_all: 1, record_tenant: 3, record_session: 1,
      sequel_find: 4, sequel_create: 3, sequel_transaction: 3
    }.flat_map { |act, weight| [act] * weight }.freeze

    TENANTS = 8
    LISTENS = 10 # seconds, longer than any fault

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

    # A row for each nonce that may be in the database.
    class Note < ActiveRecord::Base
      self.table_name = "soak"
      self.primary_key = "nonce"
    end

    # Existing rows, for all fibers to read and to lock.
    class Item < ActiveRecord::Base
      self.table_name = "soak_items"
    end

    # Rows that a policy shows to their owner only.
    class Secret < ActiveRecord::Base
      self.table_name = "soak_secrets"
    end

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
      sleep 0.004
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

    # ---- single statements ----

    def read(nonce) = own(nonce, one(@database.exec("select '#{nonce}'::text as n")))

    def read_with_parameters(nonce) = own(nonce, one(@database.exec("select $1::text as n", [nonce])))

    def read_audited(nonce) = own(nonce, one(@shared.exec("select $1::text as n", [nonce])))

    # The policy shows no row without a tenant.
    def read_of_nobody(nonce)
      row = @database.exec("select $1::text, (select count(*) from soak_secrets)", [nonce]).values.first
      @wrong << "outside of all settings #{row.inspect} was seen" unless row == [nonce, "0"]
    end

    def read_state(nonce)
      row = @database.exec("#{STATE} where $1 <> ''", [nonce]).values.first
      @wrong << "a shared connection keeps #{row.inspect}" unless row == FRESH
    end

    def slow(nonce) = own(nonce, one(@database.exec("select '#{nonce}'::text from pg_sleep(0.02)")))

    def large(nonce)
      text, size, mine = @database.exec("select $1::text, repeat('x', 200000), $2::text", [nonce, "y" * 100_000]).values.first
      own(nonce, text)
      @wrong << "a large answer was cut" unless size.bytesize == 200_000 && mine.bytesize == 100_000
    end

    def error(nonce)
      @database.exec("select 1 / (random() * 0)::int")
      @wrong << "#{nonce} was given no error"
    end

    def several(nonce) = own(nonce, one(@database.exec("select 1; select '#{nonce}'::text")))

    def write(nonce)
      own(nonce, one(@database.exec(insert(nonce))))
      :applied
    end

    def write_with_parameters(nonce)
      own(nonce, one(@database.exec("insert into soak (nonce) values ($1) returning nonce", [nonce])))
      :applied
    end

    def write_shared(nonce)
      own(nonce, one(@shared.exec("insert into soak (nonce) values ($1) returning nonce", [nonce])))
      :applied
    end

    # ---- definitions ----

    # The value is a moment or a clock's time, depending on the column's current type: the answer must never mix the
    # two.
    TYPED = "select what, pg_typeof(at)::text from soak_typed where at = $1 and $2 <> ''"
    MEANINGS = [["of a moment", "timestamp with time zone"], ["of a clock", "timestamp without time zone"]].freeze

    def read_typed(nonce, database = @database)
      rows = database.exec(TYPED, ["2026-01-01 05:00:00+05:00", nonce]).values
      @wrong << "a typed column answered #{rows.inspect}" unless rows.size == 1 && MEANINGS.include?(rows.first)
    end

    def read_typed_shared(nonce) = read_typed(nonce, @shared)

    def migrate(_nonce)
      type = %w[timestamp timestamptz].sample(random: @random)
      @database.transaction do |connection|
        connection.exec("lock table soak_typed in access exclusive mode")
        next if one(connection.exec("select atttypid = '#{type}'::regtype from pg_attribute where attrelid = 'soak_typed'::regclass and attname = 'at'")) == "t"
        connection.exec("alter table soak_typed alter column at type #{type} using at at time zone 'UTC'")
      end
    end

    # The search path of new connections changes now and then, but never back and forth between reads.
    def read_place(_nonce)
      places = Array.new(8) { one(@database.exec("select place from soak_place")) }
      changes = places.each_cons(2).count { |one, other| one != other }
      @wrong << "a name meant #{places.inspect}" if changes > 2
    end

    # ---- locks ----

    def read_locked(_nonce) = one(@database.exec("select n from soak_locked"))

    # Waits for its children's reads, while other fibers wait for its lock.
    def parent(nonce)
      @database.transaction do |connection|
        connection.exec("lock table soak_locked in access exclusive mode")
        NB.concurrently(1..2, limit: 2) { |n| own("#{nonce}-#{n}", one(@database.exec("select '#{nonce}-#{n}'::text as n"))) }
      end
      nil
    end

    # ---- transactions ----

    def commit(nonce)
      @database.transaction do |connection|
        own(nonce, one(connection.exec(insert(nonce))))
        own(nonce, one(connection.exec_params("select nonce from soak where nonce = $1", [nonce])))
      end
      :applied
    end

    def roll_back(nonce)
      @database.connect do |connection|
        connection.exec("BEGIN")
        own(nonce, one(connection.exec(insert(nonce))))
        connection.exec("ROLLBACK")
      end
      nil
    end

    def raise_in_transaction(nonce)
      @database.transaction do |connection|
        own(nonce, one(connection.exec(insert(nonce))))
        raise Enough
      end
    end

    def error_in_transaction(nonce)
      @database.transaction do |connection|
        own(nonce, one(connection.exec(insert(nonce))))
        connection.exec("select 1 / (random() * 0)::int")
        @wrong << "#{nonce} was given no error"
      end
    end

    def savepoint(nonce)
      @database.transaction do |connection|
        connection.exec("savepoint a")
        connection.exec(insert(nonce))
        connection.exec("rollback to a")
        own(nonce, one(connection.exec(insert(nonce))))
        connection.exec("release a")
      end
      :applied
    end

    # Increments a number; it must grow by one for each act that reported success.
    def count(_nonce)
      @database.transaction { |connection| connection.exec("update soak_counts set n = n + 1 where id = $1", [@random.rand(1..4)]) }
      :applied
    end

    # ---- session state ----

    def set(nonce)
      @database.connect do |connection|
        connection.exec("set soak.tenant to '#{nonce}'")
        connection.exec("set statement_timeout to 54321")
        own(nonce, one(connection.exec("select current_setting('soak.tenant')")))
      end
      nil
    end

    def keep_in_function(nonce) = own(nonce, one(@database.exec("select soak_keeps('#{nonce}')")))

    def temporary_table(nonce)
      @database.connect do |connection|
        connection.exec("create temporary table mine as select '#{nonce}'::text as n")
        own(nonce, one(connection.exec("select n from mine")))
      end
    end

    # No other session can have the lock at the same time.
    def advisory_lock(nonce)
      key = @random.rand(1..3)
      @database.connect do |connection|
        next unless one(connection.exec("select pg_try_advisory_lock(4711, #{key})")) == "t"
        holder = (@holders ||= {})
        own(nonce, one(connection.exec("select '#{nonce}'::text")))
        holder[key] = nonce
        connection.exec("select pg_sleep(0.001)")
        own(nonce, holder[key])
      end
    end

    def cursor(nonce)
      @database.transaction do |connection|
        connection.exec("declare c cursor for select '#{nonce}-' || n from generate_series(1, 30) n")
        rows = Array.new(3) { connection.exec("fetch 10 from c").column_values(0) }.flatten
        @wrong << "a cursor of #{nonce} gave #{rows.first(3)}" unless rows == (1..30).map { |n| "#{nonce}-#{n}" }
      end
      nil
    end

    def cursor_with_hold(nonce)
      @database.connect do |connection|
        connection.exec("declare held cursor with hold for select '#{nonce}'::text")
        own(nonce, one(connection.exec("fetch 1 from held")))
      end
    end

    # Two at a time, since each needs a second connection.
    def listen(nonce)
      @listeners.push(nonce, timeout: 0.5) or return
      begin
        @database.connect do |connection|
          connection.exec("listen soak_news")
          @database.exec("select pg_notify('soak_news', '#{nonce}')")
          news = nil
          heard = true
          heard = connection.wait_for_notify(LISTENS) { |_channel, _pid, payload| news = payload } until news == nonce || !heard
          @wrong << "#{nonce} never heard its own news" unless heard
        end
      ensure
        @listeners.pop(true)
      end
    end

    def copy(nonce)
      @database.connect do |connection|
        connection.exec("BEGIN")
        connection.copy_data("copy soak (nonce) from stdin") { connection.put_copy_data("#{nonce}\n") }
        connection.exec("COMMIT")
      end
      :applied
    end

    # ---- tenants ----

    def tenant(nonce)
      number = @random.rand(1..TENANTS)
      @database.with_settings("soak.tenant" => number) do |connection|
        rows = connection.exec_params("select $1::text, string_agg(distinct tenant::text, ',') from soak_secrets", [nonce]).values.first
        @wrong << "tenant #{number} saw #{rows.inspect}" unless rows == [nonce, number.to_s]
      end
      nil
    end

    def role(nonce)
      name = "soak_role_#{@random.rand(1..2)}"
      @database.with_settings(role: name, search_path: %w[soak_other public]) do |connection|
        rows = connection.exec("select '#{nonce}', current_user, current_setting('search_path')").values.first
        @wrong << "#{name} was #{rows.inspect}" unless rows == [nonce, name, "soak_other, public"]
      end
      nil
    end

    # ---- Active Record ----

    def record_find(_nonce)
      number = @random.rand(1..50)
      name = Item.find(number).name
      @wrong << "item #{number} was #{name}" unless name == "item #{number}"
    end

    def record_create(nonce)
      Note.create!(nonce:)
      :applied
    end

    def record_transaction(nonce)
      Note.transaction do
        Note.create!(nonce:)
        Note.transaction(requires_new: true) do
          Note.create!(nonce: "#{nonce}-inner")
          raise ActiveRecord::Rollback
        end
        own(nonce, Note.where(nonce:).pick(:nonce))
        raise Enough if @random.rand(3) == 0
      end
      :applied
    end

    def record_lock(_nonce)
      number = @random.rand(1..50)
      Item.transaction do
        item = Item.lock.find(number)
        @wrong << "item #{number} was #{item.name}" unless item.name == "item #{number}"
      end
      nil
    end

    def record_insert_all(nonce)
      Note.insert_all!([{nonce:}])
      :applied
    end

    def record_tenant(nonce)
      number = @random.rand(1..TENANTS)
      Secret.with_connection do |connection|
        connection.with_settings("soak.tenant" => number) do
          seen = Secret.distinct.pluck(:tenant)
          @wrong << "tenant #{number} saw #{seen} (#{nonce})" unless seen == [number]
        end
      end
      nil
    end

    # Few texts, since statistics per text are kept until there are thousands.
    def record_session(_nonce)
      value = "session #{@random.rand(1..TENANTS)}"
      Item.with_connection do |connection|
        connection.execute("SET soak.tenant TO '#{value}'")
        own(value, connection.select_value("select current_setting('soak.tenant')"))
      end
    end

    # ---- Sequel ----

    def sequel_find(_nonce)
      number = @random.rand(1..50)
      name = @sequel[:soak_items].where(id: number).get(:name)
      @wrong << "item #{number} was #{name}" unless name == "item #{number}"
    end

    def sequel_create(nonce)
      @sequel[:soak].insert(nonce:)
      :applied
    end

    def sequel_transaction(nonce)
      @sequel.transaction do
        @sequel[:soak].insert(nonce:)
        @sequel.transaction(savepoint: true) do
          @sequel[:soak].insert(nonce: "#{nonce}-inner")
          raise Sequel::Rollback
        end
        own(nonce, @sequel[:soak].where(nonce:).get(:nonce))
        raise Enough if @random.rand(3) == 0
      end
      :applied
    end

    # ---- the end of a round ----

    # @return [Array<NeverBlock::Postgres>] all clients of the process
    def databases = @databases ||= [@database, @shared, *NeverBlock::Postgres::Databases.instance_variable_get(:@all).values]

    def settle
      deadline = now + 20
      until databases.all? { |database| database.stats.values_at(:held, :in_flight, :queued, :opening).all?(&:zero?) }
        @wrong << "not at rest: #{databases.map { |database| [database.inspect, *unrest(database)] }}" and break if now > deadline
        sleep 0.01
      end
    end

    # @return [Array<String>] the state of each connection that is not idle
    def unrest(database)
      multiplexer = database.instance_variable_get(:@multiplexer)
      multiplexer.pool.connections.reject(&:idle?).map do |real|
        states = %i[@holder @draining @relieving @asking @stale @inquiry @reader @flushing @sent @outbox].map { |name| "#{name} #{real.instance_variable_get(name).inspect[0, 300]}" }
        [*states, "head abandoned: #{real.head&.awaited&.abandoned?}"].join(", ")
      end
    end

    # Checks out all connections at once: none may keep session state.
    def inspect_connections
      databases.each do |database|
        found = []
        limit = database.stats[:connections]
        next if limit.zero?
        count = [limit - 1, 1].max
        retries = 0
        all = Array.new(count) do
          NB.spawn do
            database.connect do |connection|
              found << connection.exec(STATE).values.first
              deadline = now + 5
              sleep 0.002 until found.size >= count || now > deadline
            end
          rescue PG::ConnectionBad # the connection was terminated a moment ago
            retry if (retries += 1) < 20
          end
        end
        all.each(&:join)
        kept = found.uniq - [FRESH]
        @wrong << "connections keep #{kept}" if kept.any?
        @wrong << "#{found.size} of #{count} connections could be looked at" if found.size < count
      end
    end

    def report
      leaks = @logged.grep_v(/held until check-in|all connections are replaced|the catalogue\b.* could not be read/)
      leaks = leaks.grep_v(/TimeZone was/) if @pooled # a pooler forwards a reload, and no session can be asked for the origin of a setting
      {told: @told, done: @done, ended: @ended, wrong: (@wrong + leaks).first(20)}
    end

    # The resources that the process holds when the round is over.
    def held
      reset
      @logged.clear
      forget
      Process.warmup # returns memory that malloc keeps, so that it doesn't count as growth
      Thread.new { NeverBlock::Postgres::Janitor.run_once }.join # as each minute, on a thread; this also starts Timeout's thread
      2.times { GC.start }
      memory = File.read("/proc/self/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i * 1024
      counts = ObjectSpace.count_objects
      connections = databases.sum { |database| database.stats[:connections] }
      {pss: memory, objects: counts[:TOTAL] - counts[:FREE], descriptors: Dir.children("/proc/self/fd").size - connections, threads: Thread.list.size}
    end

    # Clears the statistics per text: up to some thousands of texts, they take minutes to reach their size.
    def forget
      ObjectSpace.each_object(NeverBlock::Postgres::Classifier) { |classifier| %i[@young @old].each { |texts| classifier.instance_variable_get(texts).clear } }
    end

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
