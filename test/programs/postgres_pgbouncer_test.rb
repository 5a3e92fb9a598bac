# frozen_string_literal: true

require "test_helper"
require_relative "../support/database"
require_relative "../support/delay_proxy"
require_relative "../support/pgbouncer"

# Shared connections through a PgBouncer in transaction mode, with two server sessions for all of its clients.
class PostgresPgBouncerTest < Minitest::Test
  include NeverBlockTest::Database

  # Statements that need a session, or may.
  SESSION = {
    "SET work_mem TO '7MB'" => /SET work_mem/,
    "LISTEN news" => /LISTEN/,
    "select pg_advisory_lock(7)" => /pg_advisory_lock/,
    "create temp table passing (n int)" => /CREATE TEMP/,
    "select shop_price(1)" => /shop_price/,
    "prepare mine as select 1" => /PREPARE/i,
    "select 1; select 2" => /several statements/
  }.freeze

  SCHEMA = <<~SQL
    create role app login;
    create table passed (n int);
    grant all on passed to app;
    create function shop_price(id int) returns int language sql as 'select id * 2';
  SQL

  class << self
    # @return [NeverBlockTest::PgBouncer] shared by all tests
    def bouncer
      @bouncer ||= begin
        server = NeverBlockTest::Database.server
        server.query("select 1 from pg_roles where rolname = 'app'") == "1" or server.query(SCHEMA)
        NeverBlockTest::PgBouncer.new(server, {**NeverBlockTest::PgBouncer::SETTINGS, default_pool_size: 2}, program).tap { |bouncer| Minitest.after_run { bouncer.stop } }
      end
    end

    # @return [String, nil] the path of the tested release's program
    def program = NeverBlockTest::PgBouncer.installed

    # libpq closes a prepared statement since version 17.
    def modern? = NeverBlockTest::PgBouncer.modern?(program) && PG::Connection.method_defined?(:close_prepared)
  end

  def setup
    super
    reason = NeverBlockTest::PgBouncer.missing(self.class.program)
    skip reason if reason
    @bouncer = self.class.bouncer
  end

  # Another program uses the same two sessions, and long statements arrive in parts.
  slow "it starts PgBouncer"
  def test_fibers_share_and_every_row_is_the_right_one
    over = false
    others = Array.new(2) { |n| Thread.new { stranger("stranger #{n}") { over } } }
    through do |database|
      rows = in_loop do
        NB.concurrently(1..600, limit: 200) do |n|
          case n % 4
          when 0 then one(database.exec("select '#{n}'::text"))
          when 1 then one(database.exec("select $1::text /*#{"x" * (n * 29)}*/", [n]))
          when 2 then one(database.exec("select left($1, 3)", [n.to_s.ljust(20_000)])).strip
          else one(database.exec("select $1::text", [n]))
          end
        end
      end
      assert_equal (1..600).map(&:to_s), rows
    end
    over = true
    others.each { |thread| assert_operator thread.value, :>, 0 }
  ensure
    over = true
  end

  # PgBouncer before 1.21 may give the session to another client between two statements of a pipeline.
  slow "it starts PgBouncer"
  def test_statements_are_pipelined_only_where_the_session_stays
    through(connections: 1) do |database|
      in_loop do
        4.times { database.exec("select 0, pg_sleep(0)") }
        tasks = Array.new(8) { |n| NB.spawn { database.exec("select #{n}, pg_sleep(0.01)") } }
        deepest = 0
        pass_until("all") do
          deepest = [deepest, database.multiplexer_depth].max
          tasks.none?(&:alive?)
        end
        self.class.modern? ? assert_operator(deepest, :>, 1) : assert_equal(1, deepest)
        assert_equal 8.times.map(&:to_s), tasks.map { |task| one(task.value) }
      end
    end
  end

  # One of its two sessions belongs to the transaction, the other to a read that waits for the transaction's lock.
  slow "it waits for a lock"
  def test_a_transaction_gets_its_child_fiber_s_read
    ask("drop table if exists bounced; create table bounced as select 1 as n")
    through(connections: 2) do |database|
      in_loop do
        2.times { ["select n from bounced", "select 2"].each { |sql| database.exec(sql) } }
        reader = nil
        read = database.transaction do |connection|
          connection.exec("lock table bounced in access exclusive mode")
          reader = NB.spawn { one(database.exec("select n from bounced")) }
          NB.timeout(30) { NB.spawn { one(database.exec("select 2")) }.value }
        end
        assert_equal ["2", "1"], [read, reader.value]
      end
    end
  end

  # Pipelines are sent in one go if that is safe, and only if they are requested.
  def test_pipelines_of_one_request
    over = false
    others = Array.new(2) { |n| Thread.new { stranger("stranger #{n}") { over } } }
    through do |database|
      in_loop do
        rows = NB.concurrently(1..80, limit: 40) do |n|
          asked = [-> { one(database.exec("select '#{n}'::text /*#{"x" * (n * 211)}*/")) }, -> { one(database.exec("select $1::text", [n])) }, -> { one(database.exec("select left($1, 3)", [n.to_s.ljust(20_000)])).strip }]
          NeverBlock.pipeline(*asked)
        end
        assert_equal (1..80).map { |n| [n.to_s] * 3 }, rows
        error = assert_raises(NeverBlock::ConfigurationError) { database.without_multiplexing { |connection| connection.exec("select 1") } }
        assert_match(/without_multiplexing.*session_url/, error.message)
      end
    end
  ensure
    over = true
    others&.each(&:join)
  end

  def test_transactions
    through do |database|
      in_loop do
        NB.concurrently(1..20, limit: 20) do |n|
          database.transaction do |connection|
            connection.exec_params("insert into passed values ($1)", [n])
            connection.exec("savepoint s")
            connection.exec_params("insert into passed values ($1)", [-n])
            connection.exec("rollback to savepoint s")
            connection.exec("set local work_mem to '7MB'")
            assert_equal "7MB", one(connection.exec("show work_mem"))
            raise ZeroDivisionError if n.odd?
          end
        rescue ZeroDivisionError
          n
        end
        assert_equal "10", one(database.exec("select count(*) from passed where n > 0"))
        assert_equal "0", one(database.exec("select count(*) from passed where n < 0"))
        assert_equal "7", database.with_settings("app.tenant" => 7) { |connection| one(connection.exec("select current_setting('app.tenant')")) }
      end
    end
    ask("truncate passed")
  end

  # The alternatives that the error messages recommend.
  def test_statements_of_a_transaction
    through do |database|
      in_loop do
        database.transaction do |connection|
          assert_equal "7", one(connection.exec("select set_config('app.tenant', '7', true)"))
          assert_equal "7", one(connection.exec("select current_setting('app.tenant')"))
          connection.exec("select pg_advisory_xact_lock(7), txid_current()")
        end
        assert_equal "t", one(database.exec("select pg_try_advisory_xact_lock(7)"))
        error = assert_raises(NeverBlock::ConfigurationError) { database.exec("select current_setting('app.tenant')") }
        assert_match(/looks at its session/, error.message)
      end
    end
  end

  def test_statements_that_need_a_session_are_refused
    through do |database|
      in_loop do
        SESSION.each do |sql, words|
          error = assert_raises(NeverBlock::ConfigurationError, sql) { database.exec(sql) }
          assert_match words, error.message
          assert_match(/session_url:/, error.message)
          assert_raises(NeverBlock::ConfigurationError, "#{sql} in a transaction") { database.transaction { |connection| connection.exec(sql) } }
        end
        database.connect do |connection|
          %i[backend_pid wait_for_notify].each { |name| assert_raises(NeverBlock::ConfigurationError) { connection.public_send(name) } }
        end
        assert_equal "1", one(database.exec("select 1"))
        assert_equal 0, database.stats[:held]
      end
    end
  end

  def test_named_functions_need_none
    through(shareable_functions: ["shop_price"]) { |database| in_loop { assert_equal "4", one(database.exec("select shop_price(2)")) } }
  end

  slow "it starts PgBouncer"
  def test_statements_that_need_a_session_use_session_url
    through(session_url: "#{url}_direct") do |database|
      in_loop do
        SESSION.each_key { |sql| database.exec(sql) }
        database.connect do |connection|
          connection.exec("insert into passed values (1)")
          connection.exec("create temp table passing (n int)")
          connection.exec("insert into passing values (1)")
          assert_equal "1", one(connection.exec("select n from passing"))
          assert_match(/_direct\z/, one(connection.exec("show application_name")))
          assert_equal connection.backend_pid.to_s, one(connection.exec("select pg_backend_pid()"))
        end
        database.transaction do |connection|
          connection.exec("select pg_advisory_lock(8)")
          connection.exec("select pg_advisory_unlock(8)")
        end
        error = assert_raises(NeverBlock::ConfigurationError) do
          database.transaction do |connection|
            connection.exec("insert into passed values (2)")
            connection.exec("select pg_advisory_lock(8)")
          end
        end
        assert_match(/in a transaction that has begun without/, error.message)
        assert_equal "1", one(database.exec("select sum(n) from passed"))
        4.times.map { NB.spawn { database.connect { |connection| connection.exec("set work_mem to '7MB'") && connection.exec("select pg_sleep(0.01)") } } }.each(&:value)
      end
      assert_includes 1..2, ask("select count(*) from pg_stat_activity where application_name like '%_direct'").to_i
      assert_includes 1..2, database.stats.fetch(:sessions)
    end
    assert_equal "0", ask("select count(*) from pg_locks where locktype = 'advisory'")
    ask("truncate passed")
  end

  def test_outside_of_a_loop
    through(session_url: url) do |database|
      database.connect do |connection|
        assert_equal "1", one(connection.exec("select 1"))
        connection.exec("select pg_advisory_lock(9)")
        assert_equal "t", one(connection.exec("select pg_advisory_unlock(9)")), "the same session"
      end
    end
    through { |database| database.transaction { |connection| assert_equal "1", one(connection.exec("select 1")) } }
  end

  # No other statement through the pooler is cancelled.
  slow "it waits for limits"
  def test_how_long_statements_run_and_connections_live
    through(connections: 3, query_timeout: 0.5, max_age: 3, keepalive: 0.3, min_connections: 2) do |database|
      in_loop do
        2.times do
          assert_raises(NeverBlock::Postgres::QueryTimeout) { database.exec("select pg_sleep(30)") }
          assert_raises(NeverBlock::Postgres::QueryTimeout) { database.transaction { |connection| connection.exec("select pg_sleep(30)") } }
          assert_equal (1..50).map(&:to_s), NB.concurrently(1..50, limit: 50) { |m| one(database.exec("select $1::text", [m])) }
        end
        before = physical(database).map(&:object_id)
        pass_until("other connections", limit: 60) { one(database.exec("select 1")) == "1" && (physical(database).map(&:object_id) & before).empty? }
      end
      pass_until("the least", limit: 60) { database.stats[:connections] >= 2 }
    end
    assert_empty logged
  end

  def test_copy_and_cursors_are_of_a_transaction
    through do |database|
      in_loop do
        database.connect do |connection|
          connection.copy_data("copy passed from stdin") { 3.times { |n| connection.put_copy_data("#{n}\n") } }
          assert_equal "3", one(connection.exec("select count(*) from passed"))
        end
        database.transaction do |connection|
          connection.exec("declare numbers cursor for select n from passed order by n")
          assert_equal %w[0 1], connection.exec("fetch 2 from numbers").column_values(0)
        end
        assert_raises(NeverBlock::ConfigurationError) { database.transaction { |connection| connection.exec("declare numbers cursor with hold for select 1") } }
        assert_equal "1", one(database.exec("select 1"))
      end
    end
    ask("truncate passed")
  end

  slow "it starts PgBouncer"
  def test_whoever_gives_up_leaves_the_connection_in_order
    through(connections: 2) do |database|
      in_loop do
        10.times do |n|
          assert_raises(NB::TimeoutError) { NB.timeout(0.02) { database.exec("select pg_sleep(5), #{n}") } }
          assert_equal n.to_s, one(database.exec("select #{n}"))
        end
      end
    end
  end

  def test_a_pooler_that_was_not_told_of_is_refused
    database = NeverBlock::Postgres.new(@bouncer.url, connections: 2)
    error = in_loop { assert_raises(NeverBlock::ConfigurationError) { database.exec("select 1") } }
    assert_match(/pgbouncer: :transaction or pgbouncer: :session/, error.message)
  ensure
    database&.close
  end

  slow "it starts PgBouncer"
  def test_session_mode_is_as_without_it
    NeverBlockTest::PgBouncer.open(NeverBlockTest::Database.server, program: self.class.program, pool_mode: "session") do |bouncer|
      database = NeverBlock::Postgres.new(bouncer.url, connections: 2, pgbouncer: :session, log: @logged.method(:<<))
      in_loop do
        assert_equal (1..50).map(&:to_s), NB.concurrently(1..50, limit: 50) { |n| one(database.exec("select $1::text", [n])) }
        database.connect do |connection|
          connection.exec("create temp table passing (n int)")
          assert_equal "0", one(connection.exec("select count(*) from passing"))
        end
      end
    ensure
      database&.close
    end
  end

  def test_unsupported_options
    assert_raises(ArgumentError) { NeverBlock::Postgres.new(url, pgbouncer: :statement) }
    assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Postgres.new(url, session_url: url) }
    assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Postgres.new(url, pgbouncer: :transaction, audit: true) }
    assert_raises(ArgumentError) { NeverBlock::Postgres.new(url, pgbouncer: :transaction, session_url: url, session_connections: 0) }
  end

  slow "it starts PgBouncer"
  def test_session_defaults_are_verified_and_the_remedy_is_one
    require "neverblock/active_record"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    connect = lambda do
      ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", host: @bouncer.folder, port: @bouncer.port, username: "app",
        database: "postgres", pgbouncer: "transaction", connections: 6, shareable_functions: ["current_setting"], variables: {statement_timeout: "7s"}, schema_search_path: '"$user", public')
    end
    connect.call
    error = in_loop { assert_raises(NeverBlock::ConfigurationError) { ActiveRecord::Base.lease_connection.select_value("select 1") } }
    assert_match(/statement_timeout is "0", but must be "7000"/, error.message)
    ask(error.message[/ALTER ROLE.*/])
    @bouncer.reconnect
    connect.call
    values = in_loop do
      NB.concurrently(1..20, limit: 20) { ActiveRecord::Base.with_connection { |connection| connection.select_rows("select current_setting('statement_timeout'), current_setting('TimeZone'), pg_sleep(0.01)::text").first.first(2) } }
    end
    assert_equal [%w[7s UTC]], values.uniq
    in_loop do
      ActiveRecord::Base.transaction { ActiveRecord::Base.lease_connection.execute("insert into passed values (5)") }
      passed = Class.new(ActiveRecord::Base) { self.table_name = "passed" }
      assert_equal [1] * 40, NB.concurrently(1..40, limit: 40) { passed.where(n: 5).count }, "prepared, wherever that is"
      assert_raises(NeverBlock::ConfigurationError) { ActiveRecord::Base.lease_connection.execute("listen news") }
    end
  ensure
    ActiveRecord::Base.remove_connection if defined?(ActiveRecord)
    ask("alter role app reset all; truncate passed")
    @bouncer.reconnect # its sessions still have the name
  end

  # DEALLOCATE reaches the server, which knows other names than the pooler's clients.
  slow "it starts PgBouncer"
  def test_names_that_are_given_up
    through(connections: 1) do |database|
      in_loop do
        text = -"select $1::int + 41"
        run = ->(connection) { connection.prepare("a", text) && one(connection.exec_prepared("a", [1])) }
        3.times do |n|
          assert_equal "42", database.connect(&run)
          database.exec("create table given_up_#{n} ()")
          assert_equal "42", database.transaction(&run) # the transaction is not repeated
          database.exec("drop table given_up_#{n}")
        end
      end
    end
  end

  # The pooler keeps the names as long as the connection.
  slow "it parses a thousand statements"
  def test_a_connection_that_has_given_up_as_many_names_as_it_may_have_is_replaced
    skip "this PgBouncer keeps no names" unless self.class.modern?
    through(connections: 1) do |database|
      in_loop do
        connection = database.connection
        run = ->(n) { connection.prepare("a", -"select #{n}, $1::int") && connection.exec_prepared("a", [1]) && connection.close_prepared("a") }
        run.call(0)
        first = physical(database)[0]
        (1..(NeverBlock::Postgres::Names::MAX_PREPARED * 2)).each(&run)
        refute_same first, physical(database)[0]
        assert_equal 1, database.stats[:connections]
        connection.finish
      end
    end
  end

  # Under load the connection is never idle.
  slow "it parses some thousand statements"
  def test_a_connection_that_is_never_idle_is_replaced_too
    skip "this PgBouncer keeps no names" unless self.class.modern?
    NeverBlockTest::DelayProxy.open(to: "#{@bouncer.folder}/.s.PGSQL.#{@bouncer.port}", delay: 0.003) do |proxy|
      through("postgresql://postgres@127.0.0.1:#{proxy.port}/postgres", connections: 1) do |database|
        in_loop(limit: 60) do
          most = texts = 0
          fibers = Array.new(60) do |number|
            NB.spawn do
              sleep(number * 0.0003)
              connection = database.connection
              while (n = texts += 1) <= 20_000
                connection.prepare("a", -"select #{n}, $1::int")
                assert_equal n.to_s, connection.exec_prepared("a", [n]).getvalue(0, 1)
                connection.close_prepared("a")
                most = [most, *physical(database).map { |real| real.names.given_up }].max
              end
              connection.finish
            end
          end
          fibers.each(&:join)
          assert_operator most, :<, NeverBlock::Postgres::Names::MAX_PREPARED * 2
        end
      end
    end
  end

  # As the Railtie does when an app is served, outside of a loop.
  slow "it starts PgBouncer"
  def test_session_defaults_are_verified_at_boot
    require "neverblock/active_record"
    require "neverblock/railtie/poolers"
    configs = lambda do |**more|
      settings = {adapter: "neverblock_postgresql", host: @bouncer.folder, port: @bouncer.port, username: "app", database: "postgres", **more}
      [ActiveRecord::DatabaseConfigurations::HashConfig.new("test", "primary", settings)]
    end
    lines = []
    error = assert_raises(NeverBlock::ConfigurationError) do
      NeverBlock::Railtie::Poolers.verify(configs.call(pgbouncer: "transaction", variables: {lock_timeout: "3s"}, connections: 5), &lines.method(:<<))
    end
    assert_match(/lock_timeout is "0", but must be "3000"/, error.message)
    NeverBlock::Railtie::Poolers.verify(configs.call, &lines.method(:<<)) # checks the configurations that use a pooler
    assert_empty lines
    NeverBlock::Railtie::Poolers.verify(configs.call(pgbouncer: "transaction", port: NeverBlockTest::Peer.free_port), &lines.method(:<<))
    assert_match(/\Adatabase primary: settings made on connect could not be verified .*: /, lines.first)
    ask(error.message.scan(/ALTER ROLE.*?;/).join)
    @bouncer.reconnect
    NeverBlock::Railtie::Poolers.verify(configs.call(pgbouncer: "transaction", variables: {lock_timeout: "3s"}, connections: 5), &lines.method(:<<))
    assert_equal 1, lines.size
  ensure
    ask("alter role app reset all")
    @bouncer.reconnect # its sessions still have the name
  end

  slow "it starts PgBouncer"
  def test_sequel
    require "sequel"
    uri = URI(@bouncer.url)
    database = Sequel.connect("neverblock-postgres:///postgres?#{uri.query}&pgbouncer=transaction&connections=2&session_connections=1&session_url=#{URI.encode_www_form_component(url)}", client_min_messages: false)
    in_loop do
      assert_equal (1..20).to_a, NB.concurrently(1..20, limit: 20) { |n| database.get(Sequel.cast(n, Integer)) }
      database.transaction { database[:passed].insert(n: 1) }
      assert_equal 1, database[:passed].count
      database.synchronize do
        database.run("create temp table passing (n int)")
        assert_equal 0, database[:passing].count
      end
    end
  ensure
    database&.disconnect
    ask("truncate passed")
  end

  private

  # @return [Integer] the number of its own queries through the same pooler
  def stranger(name)
    connection = PG.connect(@bouncer.url)
    count = 0
    until yield
      assert_equal name, one(connection.exec_params("select $1::text", [name]))
      count += 1
    end
    count
  ensure
    connection&.close
  end

  # @yieldparam database [NeverBlock::Postgres]
  def through(target = "#{@bouncer.url}&application_name=nb_#{name[0, 40]}", connections: 4, **options)
    database = NeverBlock::Postgres.new(target, connections:, pgbouncer: :transaction, log: @logged.method(:<<), **options)
    database.singleton_class.define_method(:multiplexer_depth) { @multiplexer.stats[:in_flight] }
    yield database
  ensure
    database&.close
  end
end

# The same with a release that tracks prepared statements, and keeps sessions until all answers have arrived.
class PostgresNewerPgBouncerTest < PostgresPgBouncerTest
  def self.program = NeverBlockTest::PgBouncer.newer
end
