# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# An abandoned statement has no effect, then or later: it is cancelled, and its end confirmed, before its connection is
# used again. The simple protocol and COPY, which can't be pipelined, as well as single statements.
class PostgresGivenUpTest < Minitest::Test
  include NeverBlockTest::Database

  CONNECTIONS = 3

  def setup
    super
    ask("drop table if exists nb_given_up; create table nb_given_up (n int)")
  end

  {
    "single statements" => ->(database) { database.exec("insert into nb_given_up select 1 from pg_sleep(60)") },
    "several statements" => ->(database) { database.exec("select pg_sleep(60); insert into nb_given_up values (1)") },
    "a copy to the server" => lambda do |database|
      database.connect { |connection| connection.copy_data("copy nb_given_up from stdin") { connection.put_copy_data("1\n") && sleep } }
    end,
    "a copy from the server" => lambda do |database|
      database.connect { |connection| connection.copy_data("copy (select pg_sleep(60)) to stdout") { connection.get_copy_data } }
    end,
    "a cursor" => lambda do |database|
      database.transaction { |connection| connection.exec("declare c cursor for select pg_sleep(60)") && connection.exec("fetch 1 from c") }
    end,
    "what user's code has sent" => lambda do |database|
      database.connect do |connection|
        connection.send_query("select pg_sleep(60); insert into nb_given_up values (1)")
        connection.get_last_result
      end
    end
  }.each do |what, statement|
    name = what.gsub(/\W+/, "_")

    define_method("test_#{name}_by_a_timeout") do
      given_up { |database| 8.times { assert_raises(NB::TimeoutError) { NB.timeout(0.05) { statement.call(database) } } } }
    end

    define_method("test_#{name}_by_a_cancellation") do
      given_up do |database|
        tasks = Array.new(CONNECTIONS - 1) { NB.spawn { statement.call(database) } }
        pass_until("the statements to run") { active >= tasks.size }
        tasks.each(&:cancel)
      end
    end
  end

  # In a transaction the next statement is on the same connection.
  {
    "single statements" => ->(connection) { connection.exec("select pg_sleep(60)") },
    "several statements" => ->(connection) { connection.exec("select 1; select pg_sleep(60)") },
    "a copy" => ->(connection) { connection.copy_data("copy (select pg_sleep(60)) to stdout") { connection.get_copy_data } }
  }.each do |what, statement|
    define_method("test_a_rollback_after_#{what.tr(" ", "_")}") do
      given_up do |database|
        connection = database.connection
        connection.exec("BEGIN")
        connection.exec("insert into nb_given_up values (1)")
        2.times { assert_raises(NB::TimeoutError, PG::InFailedSqlTransaction) { NB.timeout(0.1) { statement.call(connection) } } }
        assert_equal "ROLLBACK", connection.exec("ROLLBACK").cmd_status
        connection.finish
      end
    end
  end

  # A holder returns the connection while a fiber that it was handed to is still using it.
  def test_a_statement_of_another_fiber
    given_up do |database|
      connection = database.connection
      task = NB.spawn { connection.exec("select pg_sleep(60); insert into nb_given_up values (1)") }
      pass_until("the statements to run") { active == 1 }
      connection.finish
      assert_raises(PG::Error, NeverBlock::Error) { task.value }
    end
  end

  private

  # @yieldparam database [NeverBlock::Postgres] on which the block abandons a statement of a minute
  def given_up
    with_database(connections: CONNECTIONS) do |database|
      in_loop do
        yield database
        assert_operator backends, :<=, CONNECTIONS
        pass_until("what was given up to end") { active.zero? }
        assert_equal "0", one(database.exec("select count(*) from nb_given_up"))
        assert_equal CONNECTIONS, NB.concurrently(1..CONNECTIONS, limit: CONNECTIONS) { database.transaction { |connection| connection.exec("select 1") } }.size
        pass_until("all to be at rest") { database.stats.values_at(:held, :in_flight, :opening).all?(&:zero?) }
      end
    end
  end
end
