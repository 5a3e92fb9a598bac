# frozen_string_literal: true

require "test_helper"
require_relative "../support/database"

# Statements of many fibers on few connections.
class PostgresTest < Minitest::Test
  include NeverBlockTest::Database

  def test_a_thousand_fibers_get_their_own_rows
    with_database do |database|
      in_loop do
        rows = NB.concurrently(1_000.times.to_a, limit: 1_000) { |n| one(database.exec("select $1::int * 2", [n])) }
        assert_equal 1_000.times.map { |n| (n * 2).to_s }, rows
        assert_operator database.stats[:connections], :<=, 4
        assert_equal [0, 0, 0], database.stats.values_at(:in_flight, :queued, :held)
      end
      assert_operator backends, :<=, 4
    end
  end

  def test_rows_without_parameters_too
    with_database do |database|
      rows = in_loop { NB.concurrently(200.times.to_a, limit: 200) { |n| one(database.exec("select #{n} as n")) } }
      assert_equal 200.times.map(&:to_s), rows
    end
  end

  # More sleepers than one connection could serve in the time.
  def test_slow_statements_have_a_connection_each
    with_database(connections: 11) do |database|
      in_loop do
        sleepers = Array.new(10) { NB.spawn { database.exec("select pg_sleep(60), 10") } }
        pass_until("ten sleepers") { active("select pg_sleep(60), 10") == 10 }
        sleepers.each(&:cancel)
      end
    end
  end

  # One connection is kept for sharing, but only while statements share.
  def test_slow_statements_have_all_connections_when_none_shares
    with_database(connections: 2) do |database|
      in_loop do
        2.times { database.exec("select 1") } # of unknown duration, then shared
        sleepers = Array.new(2) { NB.spawn { database.exec("select pg_sleep(60), 3") } }
        pass_until("two sleepers") { active("select pg_sleep(60), 3") == 2 }
        sleepers.each(&:cancel)
      end
    end
  end

  def test_writes_are_alone
    with_database do |database|
      in_loop do
        database.exec("create table alone (n int)")
        NB.concurrently(50.times.to_a, limit: 50) { |n| database.exec("insert into alone values ($1)", [n]) }
        assert_equal "50|1225", ask("select count(*), sum(n) from alone")
      end
    end
  end

  def test_a_connection_after_the_simple_protocol_is_shared_again
    with_database(connections: 1) do |database|
      database.connect { |connection| 2.times { connection.exec(";") } }
      assert_equal "2", in_loop { one(database.exec("select 2")) }
    end
  end

  def test_outside_of_a_loop
    with_database(connections: 2) do |database|
      assert_equal "7", one(database.exec("select $1::int", [7]))
      database.connect do |connection|
        connection.exec("SET statement_timeout TO 99")
        assert_equal "99ms", one(connection.exec("SHOW statement_timeout"))
      end
      threads = Array.new(8) { |n| Thread.new { Array.new(5) { one(database.exec("select #{n}")) } } }
      assert_equal Array.new(8) { |n| [n.to_s] * 5 }, threads.map(&:value)
      assert_operator backends, :<=, 2
    end
  end

  # When a fiber returns a connection, another must read the results of statements that were sent on it meanwhile.
  def test_writes_that_queue_behind_transactions_go_on
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create table behind (n int)")
        NB.concurrently(60.times.to_a, limit: 60) do |n|
          if n.even? then database.exec("insert into behind values ($1)", [n])
          else database.transaction { |connection| connection.exec("insert into behind values (#{n})") }
          end
        end
        assert_equal "60", one(database.exec("select count(*) from behind"))
      end
    end
  end

  def test_functions_of_a_newer_server_are_known
    skip "this PostgreSQL has no function that 14 has not" if ask("select current_setting('server_version_num')::int < 150000") == "t"
    with_database do |database|
      in_loop do
        database.exec("select 1")
        database.exec("select regexp_like('abc', 'b')")
        assert_empty logged
      end
    end
  end

  def test_a_write_beside_a_lease_that_lasts
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create table if not exists beside (n int)")
        reader = NB.spawn { loop { database.exec("select 1") } }
        database.connect do |connection|
          connection.exec("LISTEN something")
          3.times { NB.spawn { database.exec("insert into beside values (1)") }.value }
        end
        reader.cancel
      end
    end
  end

  # One connection is kept for sharing if there are statements that share.
  def test_sleepers_by_themselves_take_all_connections
    with_database(connections: 2) do |database|
      in_loop do
        tasks = Array.new(2) { NB.spawn { database.exec("select pg_sleep(60), 2") } }
        pass_until("two sleepers") { active("select pg_sleep(60), 2") == 2 }
        tasks.each(&:cancel)
      end
    end
  end
end
