# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"
require_relative "../../support/database"
require_relative "../../support/delay_proxy"

# Independent statements of one request in one round trip.
class PostgresPipelineTest < Minitest::Test
  include NeverBlockTest::Database

  def test_values_in_order
    with_database do |database|
      in_loop do
        assert_equal %w[1 2 3], NeverBlock.pipeline(*(1..3).map { |n| -> { one(database.exec("select $1::int", [n])) } })
        assert_equal [7, :no_statement], NeverBlock.pipeline(-> { 7 }, -> { :no_statement })
        assert_empty NeverBlock.pipeline
      end
    end
  end

  # New and repeated statements, reads and writes.
  slow "a database that is far away"
  def test_one_round_trip
    with_proxy do |proxy, database|
      in_loop do
        database.exec("create table piped (n int)")
        database.exec("select 1") # waits for the catalogue to be read again
        proxy.trips
        reads = Array.new(5) { |n| -> { one(database.exec("select #{n} as a#{n}")) } }
        assert_equal [%w[0 1 2 3 4], 1], [NeverBlock.pipeline(*reads), proxy.trips]
        again = Array.new(5) { |n| -> { one(database.exec("select $1::int", [n])) } }
        3.times { assert_equal [%w[0 1 2 3 4], 1], [NeverBlock.pipeline(*again), proxy.trips] }
        writes = Array.new(5) { |n| -> { database.exec("insert into piped values ($1)", [n]).cmd_tuples } }
        assert_equal [[1] * 5, 1], [NeverBlock.pipeline(*writes), proxy.trips]
        two = Array.new(5) { |n| -> { Array.new(2) { one(database.exec("select count(*) from piped where n <> $1", [n])) } } }
        assert_equal [%w[4 4]] * 5, NeverBlock.pipeline(*two)
        assert_operator proxy.trips, :<, 10, "what is asked next goes out as answers come"
        assert_equal [%w[0 1 2 3 4], 5], [again.map(&:call), proxy.trips], "one after another"
      end
    end
  end

  def test_more_than_fit_on_a_connection
    with_database(connections: 2) do |database|
      in_loop { assert_equal 300.times.map(&:to_s), NeverBlock.pipeline(*Array.new(300) { |n| -> { one(database.exec("select $1::int", [n])) } }) }
    end
  end

  def test_pipelines_of_many_fibers
    with_database(connections: 3) do |database|
      in_loop do
        rows = NB.concurrently(60.times.to_a, limit: 60) { |n| NeverBlock.pipeline(*Array.new(5) { |m| -> { one(database.exec("select $1::int", [n * 10 + m])) } }) }
        assert_equal 60.times.map { |n| Array.new(5) { |m| (n * 10 + m).to_s } }, rows
        assert_equal [0, 0, 0], database.stats.values_at(:in_flight, :queued, :held)
      end
    end
  end

  def test_an_error_stays_with_its_statement_and_is_raised_at_the_end
    with_database do |database|
      in_loop do
        done = []
        error = assert_raises(PG::DivisionByZero) do
          NeverBlock.pipeline(-> { done << one(database.exec("select 1")) }, -> { database.exec("select 1/0") }, -> { done << one(database.exec("select 3")) }, -> { raise "no" })
        end
        assert_equal [%w[1 3], ["no"]], [done, error.errors.map(&:message)]
      end
    end
  end

  def test_a_fiber_that_waits_for_something_else_does_not_delay_the_others
    with_database do |database|
      in_loop do
        gate = Thread::Queue.new
        assert_equal %w[late 1], NeverBlock.pipeline(-> { one(database.exec("select $1::text", [gate.pop])) }, -> { one(database.exec("select 1")).tap { gate << "late" } })
      end
    end
  end

  def test_each_statement_is_checked_for_session_state
    with_database(audit: true, shareable_functions: ["piped_sly"], audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.exec("create or replace function piped_sly(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$")
        ask = ->(n) { -> { one(database.exec("select $1::int", [n])) } }
        assert_equal %w[1 2 3], NeverBlock.pipeline(ask[1], ask[2], ask[3])
        assert_empty logged
        left, behind = NeverBlock.pipeline(-> { one(database.exec("select piped_sly('acme')")) }, -> { ask[2].call rescue $!.class }) # standard:disable Style/RescueModifier
        assert_equal "acme", left
        assert_includes ["2", NeverBlock::Postgres::OutcomeUnknown], behind, "the connection is closed, before its answer or after"
        assert_match(/It was left by: select piped_sly/, logged.first)
        assert_equal [""] * 5, Array.new(5) { one(database.exec("select coalesce(current_setting('app.tenant', true), '')")) }
      end
    end
  end

  def test_outside_of_a_loop
    with_database do |database|
      assert_equal %w[1 2], NeverBlock.pipeline(-> { one(database.exec("select 1")) }, -> { one(database.exec("select 2")) })
      assert_equal 5, NeverBlock.pipeline { 5 }
    end
  end

  def test_transactions_and_leases_in_it
    with_database(connections: 4) do |database|
      in_loop do
        database.exec("create table piped_transactions (n int)")
        transactions = Array.new(3) do |n|
          lambda do
            database.transaction do |connection|
              2.times { connection.exec("insert into piped_transactions values (#{n})") }
              one(connection.exec("select count(*) from piped_transactions where n = #{n}"))
            end
          end
        end
        lease = -> { database.connect { |connection| connection.exec("set statement_timeout to 77") && one(connection.exec("show statement_timeout")) } }
        counts = NeverBlock.pipeline(*transactions, lease)
        assert_equal %w[2 2 2 77ms], counts
      end
    end
  end

  # Statements on one connection in a transaction keep their order.
  def test_statements_of_one_transaction
    with_database do |database|
      in_loop do
        database.transaction do |connection|
          connection.exec("create table piped_order (n int)")
          NeverBlock.pipeline(*Array.new(9) { |n| -> { connection.exec_params("insert into piped_order select count(*) from piped_order where $1 > 0", [n + 1]) } })
          assert_equal "36", one(connection.exec("select sum(n) from piped_order"))
        end
      end
    end
  end

  slow "a database that is far away"
  def test_no_connection_is_free
    with_database(connections: 2, timeout: 0.2) do |database|
      in_loop do
        holders = (1..2).map do |count| # one after the other, as each opens a connection
          NB.spawn { database.exec("select pg_sleep(60)") }.tap do
            pass_until("sleeper #{count}") { active("select pg_sleep(60%") == count }
          end
        end
        error = assert_raises(NeverBlock::Postgres::PoolTimeout) { NeverBlock.pipeline(-> { database.exec("select 1") }, -> { database.exec("select 2") }) }
        assert_match(/2 of 2 are held/, error.message)
        assert_equal [NeverBlock::Postgres::PoolTimeout], error.errors.map(&:class)
        holders.each(&:cancel)
        pass_until("their connections") { database.stats[:held] == 0 }
        assert_equal %w[1 2], NeverBlock.pipeline(-> { one(database.exec("select 1")) }, -> { one(database.exec("select 2")) })
        assert_equal 0, database.stats[:queued]
      end
    end
  end

  def test_given_up_while_it_waits_and_while_it_runs
    with_database(connections: 2) do |database|
      in_loop do
        holders = Array.new(2) { NB.spawn { database.exec("select pg_sleep(60)") } }
        pass_until("two sleepers") { active("select pg_sleep(60%") == 2 }
        waiting = NB.spawn { NeverBlock.pipeline(*Array.new(3) { |n| -> { database.exec("select #{n}") } }) }
        pass_until("its place in the queue") { database.stats[:queued] == 1 }
        waiting.cancel
        assert_kind_of NeverBlock::Cancelled, outcome(waiting)
        assert_equal 0, database.stats[:queued]
        holders.each(&:cancel)
        pass_until("their connections") { database.stats[:held] == 0 }
        running = NB.spawn { NeverBlock.pipeline(-> { database.exec("select 1") }, -> { database.exec("select pg_sleep(61)") }, -> { database.exec("select 2") }) }
        pass_until("the sleeper") { active("select pg_sleep(61%") == 1 }
        running.cancel
        assert_kind_of NeverBlock::Cancelled, outcome(running)
        pass_until("its connection") { database.stats.values_at(:held, :in_flight) == [0, 0] }
        assert_equal %w[1 2], NeverBlock.pipeline(-> { one(database.exec("select 1")) }, -> { one(database.exec("select 2")) })
      end
    end
  end

  # At any time, beside other fibers: each row names the fiber that asked for it.
  slow "a database that is far away"
  def test_timeouts_and_cuts_cross_no_rows
    with_database(connections: 3) do |database|
      in_loop do
        answered = lost = late = 0
        killer = NB.spawn { 6.times { |round| pass_until("answers") { answered + lost + late >= 40 * round } && terminate } }
        NB.concurrently(30.times.to_a, limit: 30) do |n|
          12.times do |round|
            wanted = Array.new(5) { |m| "#{n} #{round} #{m}" }
            NB.timeout([nil, nil, 0.002, 0.05].sample) { assert_equal wanted, NeverBlock.pipeline(*wanted.map { |nonce| -> { one(database.exec("select $1::text, pg_sleep(0.0005)", [nonce])) } }) }
            answered += 1
          rescue NeverBlock::TimeoutError
            late += 1
          rescue NeverBlock::Postgres::OutcomeUnknown, PG::ConnectionBad
            lost += 1
          end
        end
        killer.value
        assert_equal 360, answered + lost + late
        assert_operator answered, :>, 50, [answered, lost, late].inspect
        assert_operator late, :>, 0
        pass_until("the end of what was left") { database.stats.values_at(:in_flight, :queued, :held) == [0, 0, 0] }
      end
    end
  end

  # The pipeline still waits for a connection when its fibers have given up.
  slow "a database that is far away"
  def test_all_of_them_give_up_by_themselves
    with_database(connections: 1) do |database|
      in_loop do
        holder = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the sleeper") { database.stats[:held] == 1 }
        gave_up = []
        ask = ->(n) { -> { assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.05) { database.exec("select #{n}") } }.class.tap { |kind| gave_up << kind } } }
        gate = Thread::Queue.new
        ended = NB.spawn { NeverBlock.pipeline(ask[1], ask[2], -> { gate.pop }) }
        pass_until("both have given up") { gave_up.size == 2 }
        holder.cancel
        gate << 1
        assert_equal [NeverBlock::TimeoutError] * 2, ended.value.first(2)
        pass_until("the connection") { database.stats.values_at(:held, :queued, :in_flight) == [0, 0, 0] }
        assert_equal "1", one(database.exec("select 1 for update"))
      end
    end
  end

  def test_a_lost_connection
    with_database(connections: 1) do |database|
      in_loop do
        patient(database) # otherwise the sleeper is cancelled for the statement behind it
        task = NB.spawn { NeverBlock.pipeline(-> { database.exec("select pg_sleep(62)") }, -> { database.exec("select 1") }) }
        pass_until("the sleeper") { active("select pg_sleep(62%") == 1 }
        terminate
        error = outcome(task)
        assert_equal [NeverBlock::Postgres::OutcomeUnknown] * 2, [error, *error.errors].map(&:class)
        assert_equal %w[1 2], NeverBlock.pipeline(-> { one(database.exec("select 1")) }, -> { one(database.exec("select 2")) })
      end
    end
  end

  # The connection is found dead when the statements are to be sent: each finds another one.
  slow "a database that is far away"
  def test_a_connection_that_died_before
    NeverBlockTest::VirtualTime.during do |clock|
      with_database(connections: 1) do |database|
        in_loop do
          database.exec("select 1")
          clock.advance(NeverBlock::Postgres::PipelinedConnection::PROBE_AFTER + 0.05)
          terminate
          pass_until("its end") { backends.zero? }
          assert_equal %w[1 2 3], NeverBlock.pipeline(*(1..3).map { |n| -> { one(database.exec("select #{n}")) } })
        end
      end
    end
  end

  def test_a_pipeline_in_a_pipeline
    with_database do |database|
      in_loop do
        pair = ->(n) { -> { NeverBlock.pipeline(-> { one(database.exec("select #{n}")) }, -> { one(database.exec("select #{n + 1}")) }) } }
        assert_equal [%w[1 2], %w[3 4], "5"], NeverBlock.pipeline(pair[1], pair[3], -> { one(database.exec("select 5")) })
      end
    end
  end

  # State of the request in fiber-locals.
  def test_fiber_locals
    in_loop do
      Thread.current[:request_store] = {tenant: 7}
      assert_equal [7, 7], NeverBlock.pipeline(-> { Thread.current[:request_store][:tenant].tap { Thread.current[:request_store][:tenant] = 8 } }, -> { Thread.current[:request_store][:tenant] })
      assert_equal({tenant: 7}, Thread.current[:request_store])
    end
  end

  # ActionController::Live copies all fiber-locals.
  def test_fibers_that_outlive_it
    with_database(connections: 2) do |database|
      in_loop do
        tasks = []
        gate = Thread::Queue.new
        NeverBlock.pipeline(lambda do
          locals = Thread.current.keys.to_h { |key| [key, Thread.current[key]] }
          tasks << Fiber.scheduler.background do
            locals.each { |key, value| Thread.current[key] = value }
            gate.pop
            one(database.exec("select 9"))
          end
        end)
        gate << 1
        assert_equal ["9"], tasks.map(&:value)
      end
    end
  end

  def test_mistakes
    assert_match(/3 can't be called/, assert_raises(ArgumentError) { NeverBlock.pipeline(3) }.message)
    assert_match(/callables or a block/, assert_raises(ArgumentError) { NeverBlock.pipeline(-> {}) { 1 } }.message)
  end

  private

  def with_proxy(connections: 3)
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket, delay: 0.01) do |proxy|
      database = NeverBlock::Postgres.new("postgresql://postgres@127.0.0.1:#{proxy.port}/postgres?sslmode=disable", connections:, log: @logged.method(:<<))
      yield proxy, database
    ensure
      database&.close
    end
  end
end
