# frozen_string_literal: true

require "test_helper"
require_relative "../../support/table_locks"

# The error of a fiber that gives up a sent write says that the write may have been executed; no other error does.
class PostgresOutcomeTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  DOUBT = /\(the statement had been sent: whether it was executed is unknown\)/
  INSERT = "insert into doubt.items values (1)"

  # COMMIT waits while the lock 4715 is held.
  SCHEMA = <<~SQL
    drop schema if exists doubt cascade;
    create schema doubt;
    create table doubt.items (n int);
    create table doubt.checked (n int);
    create function doubt.wait() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(4715); return null; end $$;
    create constraint trigger waits after insert on doubt.checked deferrable initially deferred for each row execute function doubt.wait();
  SQL

  def setup
    super
    ask(SCHEMA)
  end

  # Drops views and functions that would make other tests' statements of the same names unshareable.
  def teardown = (ask("drop schema if exists doubt cascade") unless skipped?)

  [:reads, :all].each do |multiplex|
    slow "it starts the database again"
    define_method(:"test_a_write_that_was_sent_with_multiplex_#{multiplex}") do
      with_database(connections: 2, multiplex:) do |database|
        in_loop do
          2.times { database.exec(INSERT) }
          [[INSERT], ["insert into doubt.items values ($1)", [1]], ["select n from doubt.items for update"]].each do |arguments|
            error = locked("doubt.items", "exclusive") do
              given_up { database.exec(*arguments) }.tap { pass_until("the server's giving it up") { database.stats[:held] == 0 } }
            end
            assert_match(/\Aexecution expired after/, error.message)
            assert_match DOUBT, error.message, arguments.first
            assert_equal 1, error.message.scan(DOUBT).size
          end
        end
      end
      assert_equal "2", ask("select count(*) from doubt.items")
    end
  end

  def test_a_write_that_was_sent_and_then_cancelled
    with_database(connections: 2) do |database|
      in_loop do
        database.exec(INSERT)
        error = locked("doubt.items", "exclusive") { cancelled { database.exec(INSERT) } }
        assert_match DOUBT, error.message
      end
    end
  end

  # One connection, which another fiber holds.
  slow "it starts the database again"
  def test_a_write_that_was_not_sent
    with_database(connections: 1) do |database|
      in_loop do
        database.transaction do |connection|
          connection.exec(INSERT)
          error = given_up { database.exec(INSERT) }
          refute_match DOUBT, error.message
          error = given_up { database.connect { |other| other.exec("set statement_timeout to 99") && other.exec(INSERT) } }
          refute_match DOUBT, error.message
        end
      end
    end
    assert_equal "1", ask("select count(*) from doubt.items")
  end

  slow "it starts the database again"
  def test_a_read_that_was_sent
    with_database(connections: 2) do |database|
      in_loop do
        2.times { database.exec("select count(*) from doubt.items") }
        locked("doubt.items", "access exclusive") do
          refute_match DOUBT, given_up { database.exec("select count(*) from doubt.items") }.message
          refute_match DOUBT, given_up { database.connect { |connection| connection.exec("select count(*) from doubt.items") } }.message
        end
      end
    end
  end

  # COMMIT is the last step of the transaction, and may have been executed.
  slow "it starts the database again"
  def test_a_commit_that_was_sent
    with_database(connections: 2) do |database|
      in_loop do
        error = committing do
          database.connect do |connection|
            connection.exec("BEGIN")
            connection.exec("insert into doubt.checked values (1)")
            given_up { connection.exec("COMMIT") }
          end
        end
        assert_match DOUBT, error.message
        error = committing { cancelled { database.transaction { |connection| connection.exec("insert into doubt.checked values (2)") } } }
        assert_match DOUBT, error.message
        error = committing { given_up(seconds: 1) { database.transaction { |connection| connection.exec("insert into doubt.checked values (3)") } } }
        assert_match DOUBT, error.message
      end
    end
  end

  # The transaction has no effect in any case.
  slow "it starts the database again"
  def test_a_write_in_a_transaction_that_is_rolled_back
    with_database(connections: 2) do |database|
      in_loop do
        [
          -> { given_up { database.transaction { |connection| connection.exec(INSERT) } } }, # sent together with its BEGIN
          -> { database.transaction { |connection| connection.exec("select 1") && given_up { connection.exec(INSERT) } } },
          -> { cancelled { database.transaction { |connection| connection.exec("select 1") && connection.exec(INSERT) } } },
          -> { given_up { database.with_settings("app.tenant" => 7) { |connection| connection.exec(INSERT) } } }
        ].each do |act|
          error = locked("doubt.items", "exclusive", &act)
          refute_match DOUBT, error.message
        rescue PG::InFailedSqlTransaction => error
          assert_match(/rolled back, not committed/, error.message)
        end
        pass_until("the cleaning") { database.stats[:held] == 0 }
      end
    end
    assert_equal "0", ask("select count(*) from doubt.items")
  end

  # An exclusive connection is not a transaction.
  slow "it starts the database again"
  def test_a_write_that_was_sent_on_a_connection_that_is_held
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("set statement_timeout to 54321")
          error = locked("doubt.items", "exclusive") { given_up { connection.exec(INSERT) } }
          assert_match DOUBT, error.message
          error = locked("doubt.items", "access exclusive") { given_up { connection.exec("select count(*) from doubt.items") } }
          refute_match DOUBT, error.message
        end
      end
    end
  end

  # The transaction decides, not other session state on the connection.
  slow "it starts the database again"
  def test_a_transaction_on_a_connection_that_is_held
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("set statement_timeout to 54321")
          connection.exec("begin")
          connection.exec("select 1")
          refute_match DOUBT, locked("doubt.items", "exclusive") { given_up { connection.exec(INSERT) } }.message
        end
      end
    end
    assert_equal "0", ask("select count(*) from doubt.items")
  end

  slow "it starts the database again"
  def test_several_statements_at_once
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("#{INSERT}; #{INSERT}") # opens the connection
        pass_until("its return") { database.stats[:held] == 0 }
        assert_match DOUBT, locked("doubt.items", "exclusive") { given_up { database.exec("#{INSERT}; #{INSERT}") } }.message
        refute_match DOUBT, assert_raises(PG::SyntaxError) { database.exec("#{INSERT}; nonsense") }.message
      end
    end
  end

  # The doubt is attached to one error object, not to its class.
  slow "it starts the database again"
  def test_the_next_timeout_says_nothing_of_it
    with_database(connections: 2) do |database|
      in_loop do
        database.exec(INSERT)
        locked("doubt.items", "exclusive") { assert_match DOUBT, given_up { database.exec(INSERT) }.message }
        refute_match DOUBT, assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.01) { sleep } }.message
      end
    end
  end

  private

  # A statement that needs no new connection is sent at once.
  # @return [NeverBlock::TimeoutError] the error of the block
  def given_up(seconds: 0.3) = assert_raises(NeverBlock::TimeoutError) { NB.timeout(seconds) { yield } }

  # @return [NeverBlock::Cancelled] of a task that is cancelled once it waits for a lock
  def cancelled(&)
    task = NB.spawn(&)
    pass_until("one that waits for a lock") { waiting == 1 }
    task.cancel
    outcome(task).tap { |error| assert_kind_of NeverBlock::Cancelled, error }
  end

  # Holds a lock, so that no COMMIT in the block completes.
  def committing
    control = PG.connect(NeverBlockTest::Database.server.url)
    control.exec("select pg_advisory_lock(4715)")
    yield
  ensure
    control&.close
  end
end
