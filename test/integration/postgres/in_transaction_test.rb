# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Usual statements of an open transaction go as pg would send them (Lease#ask); all others by Lease#run.
class PostgresInTransactionTest < Minitest::Test
  include NeverBlockTest::Database

  INSERT = "insert into within.items values ($1)"
  READ = "select count(*) from within.items"
  SCHEMA = <<~SQL
    drop schema if exists within cascade;
    create schema within;
    create table within.items (n int primary key deferrable initially deferred);
  SQL

  def setup
    super
    ask(SCHEMA)
  end

  def teardown = (ask("drop schema if exists within cascade") unless skipped?)

  def test_usual_statements_and_the_commit_become_no_statements
    transaction do |connection|
      assert_empty(by_lease { assert_equal "1", one(connection.exec(READ)) })
      assert_empty(by_lease { connection.exec_params(INSERT, [2]) })
      assert_empty(by_lease { assert_equal "3", one(connection.exec("update within.items set n = 3 where n = 2 returning n")) })
      assert_empty(by_lease { connection.exec("COMMIT") })
      assert_equal PG::PQTRANS_IDLE, connection.transaction_status
    end
    assert_equal "2", ask(READ)
  end

  def test_a_prepared_statement_is_used_by_its_name
    transaction do |connection|
      connection.prepare("one", "select $1::int")
      2.times { assert_equal "7", one(connection.exec_prepared("one", [7])) }
      connection.exec_prepared("one", [7]) until by_lease { connection.exec_prepared("one", [7]) }.empty?
    end
  end

  def test_unusual_statements_go_another_way
    transaction do |connection|
      ["savepoint a", "set local work_mem = '2MB'", "select 'unknown'"].each do |sql|
        refute_empty(by_lease { connection.exec(sql) }, sql)
      end
      connection.exec("create table within.others ()")
      refute_empty(by_lease { connection.exec(READ) }, "the transaction has changed a definition")
    end
  end

  # A name that is prepared after it belongs to the tables of its search path, and to this transaction.
  def test_a_write_that_changes_a_setting_is_none_of_them
    ask("create schema elsewhere; create table within.t (x text); create table elsewhere.t (x int); create table within.log (x text)")
    with_database(connections: 2, target: "#{url}&options=-csearch_path%3Dwithin") do |database|
      in_loop do
        insert = "insert into t values ($1) returning x::text"
        database.connect do |connection|
          change = "insert into within.log select set_config('search_path', 'elsewhere', true)"
          connection.exec(change) # the catalogue knows the shape now
          connection.exec("BEGIN")
          connection.exec_params(INSERT, [1])
          assert_equal [change], by_lease { connection.exec(change) }
          connection.prepare("insert", insert)
          3.times { assert_equal "7", one(connection.exec_prepared("insert", ["007"])) }
          connection.exec("COMMIT")
        end
        database.connect do |connection|
          connection.prepare("insert", insert)
          3.times { assert_equal "007", one(connection.exec_prepared("insert", ["007"])) }
        end
      end
    end
  ensure
    ask("drop schema if exists elsewhere cascade")
  end

  # A read may be sent a second time, as where the server has lost its name.
  def test_the_values_of_a_call_count_and_not_those_of_later
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          sql = "select $1::text"
          connection.prepare("read", sql)
          pass_until("the read's duration") { connection.exec_prepared("read", ["1"]) && fast?(database, sql) }
          params = ["7".dup]
          physical(database).each do |one|
            one.plain.exec("DEALLOCATE ALL")
            one.define_singleton_method(:deliver) do |read, result| # another fiber does so while this one waits
              params[0].replace("8")
              params << "9"
              super(read, result)
            end
          end
          assert_equal "7", one(connection.exec_prepared("read", params))
          assert_equal %w[8 9], params
        end
      end
    end
  end

  def test_an_error_aborts_the_transaction
    transaction do |connection|
      assert_raises(PG::UndefinedTable) { connection.exec("insert into within.nothing values (1)") }
      assert_raises(PG::InFailedSqlTransaction) { connection.exec(INSERT, [2]) }
      connection.exec("ROLLBACK")
      assert_equal "0", one(connection.exec(READ))
    end
  end

  def test_an_error_of_the_commit
    transaction do |connection|
      connection.exec(INSERT, [1])
      assert_raises(PG::UniqueViolation) { connection.exec("COMMIT") }
      assert_equal PG::PQTRANS_IDLE, connection.transaction_status
      assert_nil connection.leased_for
    end
    assert_equal "0", ask(READ)
  end

  def test_a_parameter_that_can_not_be_encoded_is_not_sent
    transaction do |connection|
      bad = Object.new
      def bad.to_s = raise(IOError, "no text")
      assert_raises(IOError) { connection.exec_params(INSERT, [bad]) }
      assert_equal "1", one(connection.exec(READ))
    end
  end

  def test_an_interrupted_statement_is_cancelled_before_the_next
    transaction do |connection|
      assert_raises(NeverBlock::TimeoutError) do
        NeverBlock.timeout(0.2) { connection.exec("insert into within.items select 2 from pg_sleep(600)") }
      end
      assert_raises(PG::InFailedSqlTransaction) { connection.exec(READ) }
      connection.exec("ROLLBACK")
      assert_equal "0", one(connection.exec(READ))
    end
  end

  def test_a_lost_connection
    transaction do |connection|
      id = one(connection.exec("select pg_backend_pid()"))
      ask("select pg_terminate_backend(#{id})")
      assert_raises(PG::ConnectionBad) { loop { connection.exec(INSERT, [2]) } }
      assert_match(/lost/, assert_raises(PG::ConnectionBad) { connection.exec(READ) }.message)
      connection.reset
      assert_equal "0", one(connection.exec(READ))
    end
  end

  def test_fibers_with_one_connection_take_turns
    transaction do |connection|
      tasks = Array.new(20) { |n| NeverBlock.spawn { connection.exec_params(INSERT, [n + 10]) } }
      tasks.each(&:value)
      assert_equal "21", one(connection.exec(READ))
    end
  end

  private

  # With the read known as fast, and in a transaction that has begun.
  def transaction
    with_database(connections: 2) do |database|
      patient(database)
      in_loop do
        learn(database, READ)
        database.connect do |connection|
          connection.exec("BEGIN")
          connection.exec_params(INSERT, [1])
          yield connection
          connection.exec("ROLLBACK") unless connection.transaction_status == PG::PQTRANS_IDLE
        end
      end
    end
  end

  # @return [Array<String>] statements that Lease#run got
  def by_lease
    texts = []
    watch = TracePoint.new(:call) { |call| texts << call.binding.local_variable_get(:statement).sql }
    watch.enable(target: NeverBlock::Postgres::Lease.instance_method(:run)) { yield }
    texts
  end
end
