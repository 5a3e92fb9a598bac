# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Sequel's own adapter over shared connections.
class PostgresSequelTest < Minitest::Test
  include NeverBlockTest::Database

  Recorder = Struct.new(:lines) do
    %i[debug info warn error].each { |level| define_method(level) { |text| lines << text } }
  end

  def setup
    super
    skip "sequel is not among the gems here" unless Gem.loaded_specs.key?("sequel")
    require "sequel"
    require_relative "../../support/sequel_operations"
  end

  def teardown
    @opened&.each { |db| in_loop { db.disconnect } && Sequel.synchronize { Sequel::DATABASES.delete(db) } }
  end

  def test_its_names
    all = [
      sequel, sequel("neverblock-postgresql"), Sequel.connect(adapter: "neverblock_postgres", **parameters),
      Sequel.connect(adapter: :neverblock_postgresql, **parameters), Sequel.connect(adapter: "neverblock-postgres", **parameters)
    ]
    all.each do |db|
      assert_equal [:postgres, :postgres, 1], [db.adapter_scheme, db.database_type, db.get(1)]
      assert_kind_of Sequel::Postgres::Database, db
      db.synchronize { |connection| assert_kind_of Sequel::Postgres::Adapter, connection }
    end
  ensure
    all&.each(&:disconnect)
  end

  slow "it waits for limits"
  def test_how_long_connections_live
    db = sequel("neverblock-postgres", query_timeout: 0.5, min_connections: 2, max_age: 3600)
    in_loop do
      error = assert_raises(Sequel::DatabaseError) { db.get(Sequel.function(:pg_sleep, 30)) }
      assert_kind_of NeverBlock::Postgres::QueryTimeout, error.wrapped_exception
      assert_match(/query_timeout: 0.5 s: SELECT pg_sleep\(30\)/, error.message)
      assert_equal 1, db.get(1)
      pool = multiplexer(db.send(:shared, db.opts)).pool
      pass_until("the other one") { pool.serving == 2 && pool.stats[:opening] == 0 }
    end
    assert_raises(NeverBlock::ConfigurationError) { sequel(max_age: "soon").get(1) }
  end

  def test_settings_of_a_block_and_statements_alone
    db = sequel(connections: 2)
    ask("create or replace function nb_tenant() returns text language sql as $$ select current_setting('app.tenant', true) $$")
    in_loop do
      tenants = NB.concurrently(1..10, limit: 10) { |n| db.with_settings("app.tenant" => n) { [db.get(Sequel.function(:nb_tenant)), db.in_transaction?] } }
      assert_equal (1..10).map { |n| [n.to_s, true] }, tenants
      assert_includes [nil, ""], db.get(Sequel.function(:nb_tenant))
      assert_raises(NeverBlock::ConfigurationError) { db.transaction { db.with_settings("app.tenant" => 7) { flunk } } }
      assert_raises(NeverBlock::ConfigurationError) { db.with_settings("app.tenant; drop" => 7) { flunk } }
      db.without_multiplexing do
        first = db.get(Sequel.function(:pg_backend_pid))
        assert_equal [first], Array.new(5) { db.get(Sequel.function(:pg_backend_pid)) }.uniq
        assert(db.synchronize { |connection| connection.without_multiplexing? })
        db.run("set app.tenant to 'mine'")
        assert_equal "mine", db.get(Sequel.function(:nb_tenant))
      end
      assert_includes [nil, ""], db.get(Sequel.function(:nb_tenant))
    end
  end

  # Statements that configure a connection run on each one, in that order, and nothing about it is assumed afterwards.
  slow "many fibers"
  def test_statements_that_configure_a_connection
    ask("drop schema if exists nb_x, nb_y cascade; create schema nb_x; create schema nb_y")
    ask("do $$ begin create role nb_role; exception when duplicate_object then null; end $$")
    state = "current_user::text || ' ' || current_setting('search_path')"
    to = ->(path) { "select set_config('search_path', '#{path}', false)" }
    {
      ["SET ROLE nb_role; SET search_path TO nb_x"] => "nb_role nb_x",
      ["SET search_path TO nb_x", to["nb_y"], "SET search_path TO nb_x"] => "postgres nb_x",
      ["SET search_path TO nb_x", "RESET ALL", "SET search_path TO nb_x"] => "postgres nb_x",
      ["SET ROLE nb_role", "SET SESSION AUTHORIZATION DEFAULT", "SET ROLE nb_role", "SET search_path TO nb_x"] => "nb_role nb_x",
      ["SET search_path TO nb_x", "BEGIN", "SET search_path TO nb_y", "ROLLBACK"] => "postgres nb_x",
      ["SET search_path TO nb_x", "BEGIN", "SET search_path TO nb_y", "COMMIT"] => "postgres nb_y",
      [to["nb_y"]] => "postgres nb_y"
    }.each.with_index(3) do |(statements, expected), connections|
      db = sequel(connections:, after_connect: ->(connection) { statements.each { |sql| connection.exec(sql) } })
      in_loop do
        assert_equal [expected], NB.concurrently(3.times.to_a, limit: 3) { db.get(Sequel.lit(state)) }.uniq, statements.inspect
        db.synchronize do
          db.run("SET search_path TO nb_x")
          assert_equal "nb_x", db.get(Sequel.lit("current_setting('search_path')")), statements.inspect
          db.run("SET search_path TO DEFAULT")
          assert_equal '"$user", public', db.get(Sequel.lit("current_setting('search_path')")), statements.inspect
        end
        assert_equal expected, db.get(Sequel.lit(state)), statements.inspect
      end
    end
    error = assert_raises(NeverBlock::ConfigurationError) { sequel(after_connect: ->(connection) { connection.exec_params("select set_config('search_path', $1, false)", ["nb_x"]) }) }
    assert_match(/can't have parameters/, error.message)
  end

  slow "many fibers"
  def test_selects_of_many_fibers
    db = with_items(connections: 4)
    in_loop do
      names = NB.concurrently((1..500).to_a, limit: 500) { |n| db[:items].where(id: n % 100 + 1).get(:name) }
      assert_equal (1..500).map { |n| "item #{n % 100}" }, names
    end
    assert_operator backends, :<=, 4
  end

  slow "many fibers"
  def test_transactions_of_many_fibers
    db = with_items(connections: 4, pool_timeout: 15)
    in_loop do
      NB.concurrently(500.times.to_a, limit: 500) do |n|
        db.transaction(isolation: (:repeatable if n % 5 == 0)) do
          db[:items].insert(name: "t#{n}")
          db.transaction(savepoint: true) do
            db[:items].insert(name: "nested#{n}")
            raise Sequel::Rollback if n % 4 == 0
          end
          assert_equal 1, db[:items].where(name: "t#{n}").count
          raise Sequel::Rollback if n.odd?
        end
      end
      assert_equal [250, 125], [db[:items].where(Sequel.like(:name, "t%")).count, db[:items].where(Sequel.like(:name, "nested%")).count]
    end
    assert_operator backends, :<=, 4
  end

  # A fiber that was started in a transaction is outside of it.
  def test_child_fibers_are_not_in_the_transaction
    db = with_items
    in_loop do
      db.transaction(rollback: :always) do
        db[:items].insert(name: "parent's")
        assert_equal [false, 0], NB.spawn { [db.in_transaction?, db[:items].where(name: "parent's").count] }.value
      end
    end
  end

  # Sequel wraps every error that ends the wait for a connection.
  def test_a_cancellation_and_a_timeout_while_it_connects
    TCPServer.open("127.0.0.1", 0) do |silent|
      db = Sequel.connect(adapter: "neverblock_postgres", **parameters, host: "127.0.0.1", port: silent.addr[1], test: false)
      in_loop do
        task = NB.spawn { db.get(1) }
        pass_until("the connection") { silent.wait_readable(0) }
        assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.05) { db.get(1) } }
        assert_raises(Timeout::Error) { Timeout.timeout(0.05) { db.get(1) } }
        task.cancel
        assert_kind_of NeverBlock::Cancelled, outcome(task)
        silent.close # other fibers can use a connection that is being opened, so the loop waits for it
      end
    end
  end

  def test_a_timeout_rolls_back_at_once
    db = with_items
    in_loop do
      before = now
      assert_raises(NeverBlock::TimeoutError) do
        NB.timeout(0.2) { db.transaction { db[:items].insert(name: "late") && db.run("select pg_sleep(60)") } }
      end
      assert_operator now - before, :<, 10
      assert_equal 0, db[:items].where(name: "late").count
    end
  end

  # search_path and the like need no exclusive connection, and neither do statements of after_connect.
  def test_settings_of_connections_need_no_lease
    db = with_items(connections: 3, search_path: "other,public", client_min_messages: "error", connect_sqls: ["SET application_name TO 'nb_said'"],
      after_connect: proc { |connection| connection.exec("select set_config('app.tenant', 'seven', false)") })
    in_loop do
      answers = NB.concurrently(30.times.to_a, limit: 30) do
        %w[search_path client_min_messages application_name app.tenant].map { |name| db["show #{name}"].single_value }
      end
      assert_equal [["other, public", "error", "nb_said", "seven"]], answers.uniq
      db.synchronize { |connection| assert_nil connection.leased_for }
    end
  end

  def test_settings_of_a_hold_reach_no_other_fiber
    db = with_items(connections: 2)
    in_loop do
      silently do
        db.synchronize do
          db.run("SET statement_timeout TO 4321")
          assert_equal "4321ms", db["show statement_timeout"].single_value
        end
      end
      assert_equal ["0"], NB.concurrently(20.times.to_a, limit: 20) { db["show statement_timeout"].single_value }.uniq
    end
  end

  def test_a_session_outside_of_a_loop_goes_on
    db = with_items
    db.run("SET statement_timeout TO 4321")
    db.create_table(:passing, temp: true) { Integer :n }
    assert_equal ["4321ms", 0], [db["show statement_timeout"].single_value, db[:passing].count]
    silently { in_loop { assert_equal "0", db["show statement_timeout"].single_value } }
  end

  def test_threads
    db = with_items(connections: 3)
    threads = Array.new(12) { |n| Thread.new { Array.new(10) { |m| db.transaction { db.get(n * 10 + m) } } } }
    assert_equal (0...120).to_a, threads.flat_map(&:value)
    assert_operator backends, :<=, 3
  end

  def test_no_connection_in_time
    db = with_items(connections: 2, pool_timeout: 0.2)
    in_loop do
      db.transaction do
        db[:items].for_update.first
        error = NB.spawn { outcome(NB.spawn { db.transaction { db[:items].for_update.first } }) }.value
        assert_instance_of Sequel::PoolTimeout, error
        assert_match(/within 0.2 s: 1 of 2 are held/, error.message)
      end
    end
  end

  def test_its_figures
    db = with_items(connections: 2)
    in_loop do
      db.transaction do
        db[:items].for_update.first
        stats = db.stats
        assert_equal [2, 1], [stats[:size], stats[:states][:leased]]
        assert_match(/FOR UPDATE/, stats[:holders].first[:statement])
      end
    end
  end

  def test_a_lost_connection
    db = with_items
    in_loop do
      error = assert_raises(Sequel::DatabaseDisconnectError) do
        db.transaction do
          db[:items].insert(name: "lost")
          ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nb_%'")
          db[:items].count
        end
      end
      assert_match(/terminating connection|whether it was executed/, error.message)
      assert_equal 0, db[:items].where(name: "lost").count
      # a program that ignores the error breaks nothing
      db.synchronize do
        db.run("SET statement_timeout TO 1000")
        ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nb_%'")
        assert_raises(Sequel::DatabaseDisconnectError) { db[:items].count }
      rescue Sequel::DatabaseError
        nil
      end
      assert_equal 100, db[:items].count
    end
  end

  def test_an_unreachable_database
    in_loop do
      assert_raises(Sequel::DatabaseConnectionError) { Sequel.connect(sequel_url("neverblock-postgres", "nowhere")) }
      assert_raises(NeverBlock::ConfigurationError) { Sequel.connect("#{sequel_url("neverblock-postgres")}&connections=none") }
    end
  end

  def test_a_loop_without_fiber_concurrency_is_refused
    db = with_items
    Sequel.define_singleton_method(:current) { Thread.current }
    error = assert_raises(NeverBlock::ConfigurationError) { in_loop { db.get(1) } }
    assert_match(/Sequel\.extension\(:fiber_concurrency\)/, error.message)
  ensure
    Sequel.singleton_class.remove_method(:current) if Sequel.singleton_methods(false).include?(:current)
  end

  def test_shards
    db = with_items(servers: {replica: {search_path: "pg_catalog"}})
    in_loop do
      paths = NB.concurrently(40.times.to_a, limit: 40) { |n| db["show search_path"].server(n.odd? ? :replica : :default).single_value }
      assert_equal ['"$user", public', "pg_catalog"] * 20, paths.map { |path| path.delete_prefix('"').start_with?("pg_") ? "pg_catalog" : path }
      db.disconnect
      assert_equal 0, db.pool.size(:replica)
    end
  end

  def test_extensions_of_the_pool
    db = with_items(preconnect: true)
    db.extension(:connection_validator, :connection_expiration)
    db.pool.connection_validation_timeout = -1
    in_loop { assert_equal [100], NB.concurrently(50.times.to_a, limit: 50) { db[:items].count }.uniq }
  end

  def test_databases_that_are_dropped
    ask("create database nb_dropped")
    db = Sequel.connect(sequel_url("neverblock-postgres", "nb_dropped"))
    in_loop { db.get(1) }
    db.disconnect
    ask("drop database nb_dropped")
  end

  # Sequel's own adapter, with exclusive connections, in a loop.
  def test_the_plain_adapter_in_a_loop
    Sequel.extension(:fiber_concurrency)
    db = sequel("postgres", max_connections: 4)
    in_loop do
      db.create_table!(:plain) { primary_key :id }
      assert_equal (1..200).to_a, NB.concurrently((1..200).to_a, limit: 200) { |n| db.get(n) }
      NB.concurrently(20.times.to_a, limit: 20) { |n| db.transaction { db[:plain].insert && n.odd? && raise(Sequel::Rollback) } }
      assert_equal 10, db[:plain].count
    end
  end

  slow "many fibers"
  def test_it_does_not_differ_from_the_plain_adapter
    plain = on_thread { operations("nb_plain", "postgres") }
    ours = silently { in_loop { operations("nb_ours", "neverblock-postgres") } }
    outside = on_thread { operations("nb_outside", "neverblock-postgres") }
    assert_operator plain.size, :>=, 200
    plain.each_with_index do |(name, *expected), index|
      assert_equal expected, ours[index].drop(1), "#{name}, in a loop"
      assert_equal expected, outside[index].drop(1), "#{name}, outside of one"
    end
  end

  private

  # Without the warning about connections held until check-in, which is expected here.
  def silently(value = nil)
    capture_io { value = yield }
    value
  end

  # @return [Array<Array>] for each operation: its name, its outcome, the logged SQL
  def operations(database, scheme)
    ask("drop database if exists #{database}")
    ask("create database #{database}")
    db = Sequel.connect(sequel_url(scheme, database), keep_reference: false, max_connections: 8)
    NeverBlockTest::SequelOperations.schema(db)
    db.server_version # the plain adapter gets it by SQL
    db.loggers << Recorder.new([])
    NeverBlockTest::SequelOperations::ALL.map do |name, operation|
      db.loggers.first.lines.clear
      result = begin
        operation.call(db)
      rescue => error
        [error.class, error.message.lines.first]
      end
      [name, comparable(result), db.loggers.first.lines.map { |line| line.sub(/\A\(\d+\.\d+s\) /, "").gsub(/:0x\h+|\(\d{5}\)/, "(own)") }]
    end
  ensure
    db&.disconnect
  end

  def comparable(result)
    case result
    when Hash then result.to_h { |key, value| [key, comparable(value)] }
    when Array then result.map { |value| comparable(value) }
    when Sequel::Database then :database
    else result
    end
  end

  # @return [Sequel::Database]
  def sequel(scheme = "neverblock-postgres", database = "postgres", **)
    Sequel.connect(sequel_url(scheme, database), driver_options: {application_name: "nb_#{name[0, 50]}"}, **).tap { |db| (@opened ||= []) << db }
  end

  # With a table of a hundred items.
  def with_items(connections: 4, **)
    sequel(connections:, **).tap do |db|
      db.create_table!(:items) do
        primary_key :id
        String :name, null: false
      end
      db[:items].import([:name], 100.times.map { |n| ["item #{n}"] })
    end
  end

  def sequel_url(scheme, database = "postgres")
    NeverBlockTest::Database.server.url(database).sub("postgresql:", "#{scheme}:")
  end

  def parameters
    server = NeverBlockTest::Database.server
    {host: server.folder, port: server.port, user: server.user, database: "postgres", keep_reference: false}
  end
end
