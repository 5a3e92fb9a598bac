# frozen_string_literal: true

require "test_helper"
require_relative "../../support/shared_shapes"
require_relative "../../support/delay_proxy"

# Exceptions and abandoned waits at unexpected places: while a message is sent, a result read, a transaction begun. Code
# of the caller that raises or waits there is in postgres/callbacks_test.rb.
class PostgresInterruptionsTest < Minitest::Test
  include NeverBlockTest::SharedShapes

  # Stands for the exceptions of Timeout, Thread#raise and Thread#kill, which may occur between any two lines.
  class Anywhere < Exception; end # standard:disable Lint/InheritException

  # Every method that a statement passes through; the exception strikes before and after each.
  POINTS = %i[sync_get_result consume_input is_busy send_pipeline_sync send_query_params send_query_prepared send_prepare sync_flush].freeze

  POINTS.product(%i[before after]).each do |point, moment|
    define_method(:"test_an_exception_#{moment}_#{point}") { no_answer_is_another_s(point, moment) }
  end

  # The methods of exclusive connections.
  %i[send_query_params get_last_result transaction_status].product(%i[before after]).each do |point, moment|
    define_method(:"test_an_exception_#{moment}_#{point}_where_connections_are_idle") { no_answer_is_another_s(point, moment, connections: 3) }
  end

  def test_a_read_at_once_that_is_given_up
    with_database(connections: 2) do |database|
      in_loop do
        share(database)
        busy = physical(database).first.pid
        10.times do
          task = NB.spawn { database.exec("select 7 as n from pg_sleep(10)") }
          quick = NB.spawn { one(database.exec("select $1::text as n", ["8"])) }
          assert_equal "8", quick.value
          task.cancel
          works(database)
        end
        assert_includes physical(database).map(&:pid), busy
      end
    end
  end

  # The message is large, so writing it takes several turns of the loop. Fibers that were on its connection before
  # resume meanwhile, and find no sent statement there.
  def test_a_large_statement_on_a_connection_that_others_have_just_left
    large = "x" * 30_000_000
    with_database(connections: 2) do |database|
      in_loop do
        slow = "select length($1) as n from pg_sleep($2)"
        8.times { database.exec(slow, ["a", 0]) }
        upkeep = NeverBlock::Postgres::Upkeep.new(multiplexer(database).pool, nil, audit: nil, definitions: nil)
        writer = NB.spawn { one(database.exec(slow, [large, 1.5])) }
        pass_until("its message") { physical(database).any? { |real| !real.idle? && real.head.nil? } }
        physical(database).each { |real| upkeep.tend(real) }
        assert_equal "30000000", writer.value
        assert_equal 0, database.stats[:lost]
      end
    end
  end

  # The abandoned statement's answer is dropped, and the transaction's next statement gets its own.
  def test_a_statement_of_a_transaction_that_is_given_up_and_the_next_one
    with_database(connections: 2) do |database|
      in_loop do
        database.transaction do |connection|
          connection.exec("select 1")
          connection.exec("savepoint before")
          assert_raises(NB::TimeoutError) { NB.timeout(0.05) { connection.exec("select 9 from pg_sleep(10)") } }
          connection.exec("rollback to before")
          assert_equal "3", one(connection.exec_params("select $1::text", ["3"]))
        end
        works(database)
      end
    end
  end

  # More bytes than the sockets hold, in both directions.
  def test_large_statements_with_large_answers
    with_database(connections: 1) do |database|
      in_loop do
        4.times { database.exec("select $1::text as large", ["x"]) }
        sizes = 12.times.map { |n| 800_000 + n }
        assert_equal sizes, NB.concurrently(sizes, limit: 12) { |size| one(database.exec("select $1::text as large", ["x" * size])).bytesize }
        given_up = Array.new(12) { |n| NB.spawn { NB.timeout(0.001 * n) { one(database.exec("select $1::text as large", [n.to_s * 800_000])) } } }
        given_up.each_with_index do |task, n|
          value = outcome(task)
          assert_equal n.to_s * 800_000, value unless NeverBlock::TimeoutError === value || PG::ConnectionBad === value
        end
        works(database)
      end
    end
  end

  # The fiber that was woken to read, or to take a promised place, is gone.
  def test_a_woken_fiber_is_cancelled_before_it_runs
    with_database(connections: 1) do |database|
      in_loop do
        share(database)
        60.times do |round|
          tasks = Array.new(12) { |n| NB.spawn { one(database.exec("select $1::text as n", ["#{round} #{n}"])) } }
          watch = NB.spawn do
            tasks.each_with_index do |task, n|
              NB.pass until !task.alive? || n >= 6
              tasks[n + 1]&.cancel
              tasks[n + 3]&.cancel
            end
          end
          NB.timeout(5) do
            tasks.each_with_index { |task, n| outcome(task).then { |value| assert_equal "#{round} #{n}", value unless NeverBlock::Cancelled === value } }
          end
          watch.cancel
        end
        works(database)
      end
    end
  end

  def test_close_ends_all_waits
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        sleeper = NB.spawn { database.exec("select pg_sleep(30)") }
        pass_until("the sleeper") { database.stats[:in_flight] == 1 }
        waiting = Array.new(3) { NB.spawn { database.exec("select 1") } } + Array.new(3) { NB.spawn { database.transaction { |connection| connection.exec("select 1") } } }
        pass_until("the queue") { database.stats[:queued] == 6 }
        database.close
        errors = NB.timeout(5) { [sleeper, *waiting].map { |task| outcome(task) } }
        assert_kind_of NeverBlock::Postgres::OutcomeUnknown, errors.shift
        assert_equal [NeverBlock::ClosedError], errors.map(&:class).uniq
        assert_equal 0, database.stats[:connections]
      end
    end
  end

  # Regression: the running statement is abandoned first, then the unsent one behind it; nothing read the first one's
  # answer, or ended it.
  def test_a_statement_is_given_up_when_the_last_one_behind_it_leaves_unsent
    with_database(connections: 1) do |database|
      in_loop do
        patient(database)
        pass_until("a shape that is known") { database.exec("select pg_sleep(0)") && multiplexer(database).timings.fast?(fingerprint(database, "select pg_sleep(0)")) }
        sleeper = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the sleeper") { active == 1 }
        behind = NB.spawn { database.exec("select pg_sleep(59)") }
        NB.pass until behind.fiber && database.stats[:in_flight] == 2
        assert_includes physical(database).first.inspect, " 1 of them unsent"
        [sleeper, behind].each(&:cancel)
        [sleeper, behind].each { |task| assert_kind_of NeverBlock::Cancelled, outcome(task) }
        pass_until("its end: #{database.inspect}") { database.stats.values_at(:held, :in_flight) == [0, 0] }
        works(database)
      end
    end
  end

  # DISCARD ALL and DEALLOCATE ALL also remove the names that other statements have prepared.
  def test_names_are_gone_with_deallocate_all
    with_database(connections: 1) do |database|
      in_loop do
        ["DEALLOCATE ALL", "DISCARD ALL"].each do |sql|
          3.times { database.exec("select $1::int as kept", [1]) }
          database.connect do |connection|
            connection.exec("set statement_timeout to 1234")
            connection.prepare("mine", "select $1::int as mine")
            assert_equal "7", one(connection.exec_prepared("mine", [7]))
            connection.exec(sql)
            assert_raises(PG::InvalidSqlStatementName) { connection.exec_prepared("mine", [7]) }
            connection.prepare("mine", "select $1::int as mine")
            assert_equal "8", one(connection.exec_prepared("mine", [8]))
          end
          pass_until("the cleaning") { database.stats[:held] == 0 }
          assert_equal "2", one(database.exec("select $1::int as kept", [2]))
        end
      end
    end
  end

  # DEALLOCATE of stale names is sent with the next statement, which may be the ROLLBACK.
  def test_a_stale_plan_in_a_transaction_leaves_its_rollback_alone
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("drop table if exists stale")
        database.exec("create table stale (a int)")
        connection = database.connection
        connection.prepare("q", "select * from stale")
        connection.exec("BEGIN")
        connection.exec_prepared("q")
        connection.exec("COMMIT")
        ask("alter table stale add b int")
        connection.exec("BEGIN")
        assert_raises(PG::FeatureNotSupported) { connection.exec_prepared("q") }
        assert_equal "ROLLBACK", connection.exec("ROLLBACK").cmd_status
        assert_equal PG::PQTRANS_IDLE, connection.transaction_status
        assert_equal %w[a b], connection.exec_prepared("q").fields
        connection.check_in
        assert_equal 0, database.stats[:held]
      end
    end
  end

  # BEGIN is sent with the first statement and fails with it: no statement of the transaction takes effect outside of
  # it.
  def test_a_begin_that_fails_late
    with_database(connections: 2) do |database|
      in_loop do
        begun(database)
        connection = database.connection
        {"COMMIT" => "ROLLBACK", "ROLLBACK" => "ROLLBACK"}.each do |last, tag|
          connection.exec("begin only")
          assert_raises(PG::SyntaxError) { connection.exec("insert into begun values (1)") }
          no_transaction_goes_on(connection)
          assert_equal tag, connection.exec(last).cmd_status
          assert_equal PG::PQTRANS_IDLE, connection.transaction_status
          assert_equal 0, database.stats[:held]
        end
        connection.exec("insert into begun values (3)")
        connection.check_in
        assert_equal "3", one(database.exec("select string_agg(n::text, ',') from begun"))
      end
    end
  end

  # The same if no fiber was left to get the error.
  def test_a_begin_that_fails_when_its_statement_was_given_up
    skip NeverBlockTest::DelayProxy.missing if NeverBlockTest::DelayProxy.missing
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      database = NeverBlock::Postgres.new("postgresql://postgres@127.0.0.1:#{proxy.port}/postgres", connections: 2)
      in_loop do
        begun(database)
        connection = database.connection
        connection.exec("begin only")
        proxy.silence
        assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.05) { connection.exec("insert into begun values (1)") } }
        proxy.resume
        no_transaction_goes_on(connection)
        assert_raises(PG::InFailedSqlTransaction) { connection.copy_data("copy begun from stdin") { connection.put_copy_data("2\n") } }
        connection.check_in
        pass_until("its cleaning") { database.stats[:held] == 0 }
        error = assert_raises(PG::InFailedSqlTransaction) { database.transaction { |other| give_up(other, proxy) } }
        assert_match(/rolled back, not committed/, error.message)
        assert_equal "0", one(database.exec("select count(*) from begun"))
      end
    ensure
      database&.close
    end
  end

  private

  def begun(database)
    database.exec("create table if not exists begun (n int)")
    database.exec("truncate begun")
  end

  def no_transaction_goes_on(connection)
    assert_raises(PG::InFailedSqlTransaction) { connection.exec("insert into begun values (2)") }
    assert_equal PG::PQTRANS_INERROR, connection.transaction_status
  end

  # Rescues the timeout, as callers do.
  def give_up(connection, proxy)
    connection.exec("rollback")
    connection.exec("begin only")
    proxy.silence
    NB.timeout(0.05) { connection.exec("insert into begun values (1)") }
  rescue NeverBlock::TimeoutError
    proxy.resume
  end

  # Each statement gets its own row, the exception, or the loss of its connection.
  def no_answer_is_another_s(point, moment, connections: 1)
    with_database(connections:) do |database|
      in_loop do
        share(database)
        25.times do |round|
          arm(database, point, moment, round)
          tasks = Array.new(8) { |n| NB.spawn { one(database.exec("select $1::text as n", ["#{round} #{n}"])) } }
          values = NB.timeout(5) { tasks.map { |task| outcome(task) } }
          values.each_with_index do |value, n|
            assert_equal "#{round} #{n}", value unless Anywhere === value || NeverBlock::Postgres::OutcomeUnknown === value
          end
          @countdown = nil
          works(database)
        end
      end
    end
  end

  # Strikes once, at the given call from now on.
  def arm(database, point, moment, countdown)
    real = physical(database).first
    @countdown = countdown
    return if real.nil? || real.pg.singleton_methods.include?(point)
    strike = -> { @countdown && (@countdown -= 1) == -1 }
    real.pg.define_singleton_method(point) do |*arguments, **options|
      strikes = strike.call
      raise Anywhere, "before #{point}" if strikes && moment == :before
      value = super(*arguments, **options)
      raise Anywhere, "after #{point}" if strikes
      value
    end
  end
end
