# frozen_string_literal: true

require "test_helper"
require_relative "../support/behind_pgbouncer"

# What needs a session, behind a PgBouncer in transaction mode: statements, session_url, session defaults. PgBouncer in
# session mode is here too.
class PostgresPgBouncerSessionsTest < Minitest::Test
  include NeverBlockTest::BehindPgBouncer

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
end

# The same with a release that tracks prepared statements, and keeps sessions until all answers have arrived.
class PostgresNewerPgBouncerSessionsTest < PostgresPgBouncerSessionsTest
  def self.program = NeverBlockTest::PgBouncer.newer
end
