# frozen_string_literal: true

require "test_helper"
require_relative "../../support/records"

# Sharing turned off, globally and for a block; statements that may be executed twice.
class PostgresUnsharedTest < Minitest::Test
  include NeverBlockTest::Records

  def test_nothing_shares
    with_database(connections: 3, multiplex: false) do |database|
      in_loop do
        database.exec("select 1")
        tasks = Array.new(3) { NB.spawn { database.exec("select pg_sleep(60), 1 as unshared") } }
        pass_until("three at once") { active("%unshared%") == 3 }
        tasks.each(&:cancel)
        assert_equal 50.times.map(&:to_s), NB.concurrently(50.times.to_a, limit: 50) { |n| one(database.exec("select $1::int", [n])) }
      end
      assert_operator backends, :<=, 3
    end
  end

  def test_a_block_has_a_connection_to_itself_that_is_reset_afterwards
    with_database(connections: 2, shareable_functions: ["pg_backend_pid"]) do |database|
      in_loop do
        20.times { database.exec("select pg_backend_pid()") }
        database.exec("create function sly_setting() returns text language sql as $$ select set_config('app.tenant', 'seven', false) $$")
        database.exec("create view sly as select sly_setting()")
        seen = database.without_multiplexing do |connection|
          pid = connection.exec("select pg_backend_pid()").getvalue(0, 0)
          others = NB.concurrently(40.times.to_a, limit: 40) { one(database.exec("select pg_backend_pid()")) }
          refute_includes others, pid
          connection.without_multiplexing { connection.exec("select * from sly") }
          [connection.exec("select pg_backend_pid()").getvalue(0, 0) == pid, one(connection.exec("select current_setting('app.tenant', true)"))]
        end
        assert_equal [true, "seven"], seen
        pass_until("the cleaning") { database.stats[:held] == 0 }
        assert_empty logged
        settings = NB.concurrently(10.times.to_a, limit: 10) { one(database.exec("select nullif(current_setting('app.tenant', true), ''), pg_sleep(0.01)")) }
        assert_equal [nil], settings.uniq
      end
    ensure
      ask("drop view if exists sly; drop function if exists sly_setting()")
    end
  end

  def test_a_block_in_a_transaction_and_a_transaction_in_a_block
    with_database(connections: 3) do |database|
      in_loop do
        database.exec("create table unshared (n int)")
        database.transaction do |connection|
          connection.exec("insert into unshared values (1)")
          connection.without_multiplexing { connection.exec("insert into unshared select count(*) + 1 from unshared") }
          assert_equal PG::PQTRANS_INTRANS, connection.transaction_status
        end
        database.without_multiplexing do |connection|
          connection.exec("begin")
          connection.exec("insert into unshared values (3)")
          connection.exec("commit")
          assert connection.leased_for
        end
        assert_raises(RuntimeError) do
          database.without_multiplexing do |connection|
            connection.exec("begin")
            connection.exec("insert into unshared values (4)")
            raise "no"
          end
        end
        pass_until("the cleaning") { database.stats[:held] == 0 }
        assert_equal "1,2,3", one(database.exec("select string_agg(n::text, ',' order by n) from unshared"))
      end
    end
  end

  def test_outside_of_a_loop_it_is_as_ever
    with_database(connections: 2) do |database|
      assert_equal "1", database.without_multiplexing { |connection| one(connection.exec("select 1")) }
    end
  end

  def test_active_record
    with_items(connections: 3) do |items|
      items.create!(name: "one")
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      items.with_connection do |connection|
        pids = connection.without_multiplexing do
          NB.concurrently(9.times.to_a, limit: 9) { items.find(1) }
          assert connection.held_for
          assert_equal [1, "one"], NeverBlock.pipeline(-> { items.count }, -> { items.first.name })
          assert_equal ["one"], items.where(id: 1).load_async.map(&:name)
          Array.new(3) { connection.select_value("select pg_backend_pid()") }
        end
        assert_equal 1, pids.uniq.size
        assert_nil connection.held_for
      end
      assert_equal 1, items.count
    end
  end

  # The connection is lost once, and then too often.
  slow "it starts the database again"
  def test_repeatable_statements_are_repeated
    with_database(connections: 2) do |database|
      in_loop do
        {1 => true, NeverBlock::Postgres::RETRIES => true, NeverBlock::Postgres::RETRIES + 1 => false}.each do |kills, lives|
          ask("drop table if exists gate; create table gate as select 60 as seconds")
          task = NB.spawn { one(database.exec("select $1::int, pg_sleep((select seconds from gate))", [kills], retry: true)) }
          killed = []
          kills.times do |number|
            pid = pass_until("the sleeper") { (sleepers - killed).first }
            ask("update gate set seconds = 0") if number == kills - 1
            ask("select pg_terminate_backend(#{pid})")
            killed << pid
          end
          value = outcome(task)
          lives ? assert_equal(kills.to_s, value) : assert_kind_of(NeverBlock::Postgres::OutcomeUnknown, value)
        end
        task = NB.spawn { database.exec("select pg_sleep(60), $1::int", [1], retry: false) }
        ask("select pg_terminate_backend(#{pass_until("the sleeper") { sleepers.first }})")
        assert_kind_of NeverBlock::Postgres::OutcomeUnknown, outcome(task)
        assert_raises(PG::DivisionByZero) { database.exec("select 1/0", retry: true) }
        assert_match(/again/, assert_raises(ArgumentError) { database.exec("select 1", again: true) }.message)
      end
      assert_equal "1", one(database.exec("select 1", retry: true))
    end
  end

  private

  def sleepers = ask("select pid from pg_stat_activity where state = 'active' and query like '%pg_sleep(%' and application_name = 'nb_#{name[0, 50]}'").lines(chomp: true)
end
