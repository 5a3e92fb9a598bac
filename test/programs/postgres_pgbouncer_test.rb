# frozen_string_literal: true

require "test_helper"
require_relative "../support/behind_pgbouncer"
require_relative "../support/delay_proxy"

# Shared connections through a PgBouncer in transaction mode: rows, transactions, limits, names. What needs a session is
# in postgres_pgbouncer_sessions_test.rb.
class PostgresPgBouncerTest < Minitest::Test
  include NeverBlockTest::BehindPgBouncer

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
        pass_until("other connections") { one(database.exec("select 1")) == "1" && (physical(database).map(&:object_id) & before).empty? }
      end
      pass_until("the least") { database.stats[:connections] >= 2 }
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
        in_loop do
          most = texts = 0
          fibers = Array.new(60) do |number|
            NB.spawn do
              sleep(number * 0.0003) # real: PgBouncer, which is far away
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
end

# The same with a release that tracks prepared statements, and keeps sessions until all answers have arrived.
class PostgresNewerPgBouncerTest < PostgresPgBouncerTest
  def self.program = NeverBlockTest::PgBouncer.newer
end
