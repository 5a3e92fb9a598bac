# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/virtual_time"
require_relative "../../support/database"

# A server that is unreachable for a while, and more waiting requests than the limit.
class PostgresReconnectTest < Minitest::Test
  include NeverBlockTest::Database

  def setup
    super
    @down = true
    @attempts = 0
  end

  # Regression: a thousand requests made a thousand attempts.
  def test_a_server_that_is_down_gets_few_attempts
    unreliable(connections: 4) do |database|
      in_loop do
        began = now
        errors = NB.concurrently(1..1_000, limit: 1_000) { |n| refused(database, n) }
        pauses = -> { (now - began) / (NeverBlock::Postgres::Backoff::FIRST_PAUSE / 2) }
        assert_equal ["no server"], errors.map(&:message).uniq
        assert_operator @attempts, :<=, 5 + pauses.call
        errors = NB.concurrently(1..1_000, limit: 1_000) { |n| refused(database, n) }
        assert_equal 1_000, errors.size
        assert_operator @attempts, :<=, 6 + pauses.call
      end
    end
  end

  def test_whoever_waits_for_the_next_attempt_is_served_by_it
    unreliable(connections: 4) do |database|
      in_loop do
        refused(database, 0)
        @down = false
        assert_equal (1..200).map(&:to_s), NB.concurrently(1..200, limit: 200) { |n| one(database.exec("select $1::text", [n])) }
        assert_operator @attempts, :<=, 5
        transactions = NB.concurrently(1..40, limit: 40) { |n| database.transaction { |connection| one(connection.exec("select #{n}")) } }
        assert_equal (1..40).map(&:to_s), transactions
        assert_equal 4, database.stats[:connections]
      end
    end
  end

  # The same in threads, outside of any loop.
  def test_threads_wait_for_the_next_attempt
    unreliable(connections: 2) do |database|
      refused(database, 0)
      @down = false
      values = Array.new(6) { |n| Thread.new { one(database.exec("select #{n}")) } }.map(&:value)
      assert_equal (0..5).map(&:to_s), values
    end
  end

  def test_connections_that_are_left_go_on_serving
    @down = false
    unreliable(backoff: without_pauses_of_its_own, connections: 3) do |database|
      in_loop do
        assert_equal "1", one(database.exec("select 1"))
        @down = true
        database.transaction do |connection|
          connection.exec("select 1")
          refused(database, 1)
          waiting = Array.new(20) { |n| NB.spawn { one(database.exec("select #{n}::text")) } }
          pass_until("the waiting requests") { database.stats[:queued] > 0 }
          connection.exec("select 1")
          @down = false
          assert_equal (0..19).map(&:to_s), waiting.map(&:value)
        end
      end
    end
  end

  # Regression: they were not told, and waited until their timeout.
  def test_requests_that_were_queued_before_learn_of_it
    @down = false
    unreliable(connections: 1, timeout: 60) do |database|
      in_loop do
        database.exec("select 1")
        waiting = nil
        assert_raises(PG::ConnectionBad) do
          database.transaction do |connection|
            connection.exec("select 1")
            waiting = Array.new(6) { NB.spawn { database.exec("select 2") } }
            pass_until("the waiting requests") { database.stats[:queued] == 6 }
            @down = true
            connection.exec("select pg_terminate_backend(pg_backend_pid())")
          end
        end
        began = now
        assert_equal ["no server"], waiting.map { |task| outcome(task).message }.uniq
        assert_operator now - began, :<, 30
      end
    end
  end

  def test_pauses_grow_and_end
    backoff = NeverBlock::Postgres::Backoff.new
    NeverBlockTest::VirtualTime.during do |clock|
      refute_predicate backoff, :active?
      assert_equal 0.0, backoff.left
      pauses = Array.new(8) { backoff.failed(PG::ConnectionBad.new("no server")) && nil || backoff.left }
      assert_includes 0.025..0.05, pauses.first
      assert_includes 0.5..1.0, pauses.last
      assert_equal "no server", backoff.since(clock.now).message
      assert_nil backoff.since(clock.now + 0.1)
      clock.advance(2)
      assert_equal 0.0, backoff.left
      backoff.succeeded
      refute_predicate backoff, :active?
    end
  end

  def test_as_many_wait_as_may
    with_database(connections: 2, max_waiting: 5, timeout: 5) do |database|
      in_loop do
        ask("create table if not exists crowded (n int)")
        database.transaction do |connection|
          connection.exec("lock table crowded")
          tasks = Array.new(12) { |n| NB.spawn { database.exec("insert into crowded values (#{n})") } }
          pass_until("all") { tasks.count(&:alive?) == 6 }
          refused = tasks.reject(&:alive?).map { |task| outcome(task) }
          assert_equal [NeverBlock::Postgres::BacklogFull], refused.map(&:class).uniq
          assert_match(/\A5 wait for a connection already \(max_waiting:\): [12] of 2 are held \(.*lock/i, refused.first.message)
          assert_kind_of NeverBlock::Postgres::PoolTimeout, refused.first
          connection.exec("commit")
          tasks.select(&:alive?).each(&:value)
        end
        assert_equal "6", one(database.exec("select count(*) from crowded"))
      end
    end
  ensure
    ask("drop table if exists crowded")
  end

  private

  # @param backoff [NeverBlock::Postgres::Backoff]
  # @yieldparam database [NeverBlock::Postgres] whose server answers unless @down is set
  def unreliable(backoff: NeverBlock::Postgres::Backoff.new, **options)
    connect = lambda do
      @attempts += 1
      @down ? raise(PG::ConnectionBad, "no server") : PG.connect(url)
    end
    database = NeverBlock::Postgres::Backoff.stub(:new, backoff) { NeverBlock::Postgres.new(connect, log: @logged.method(:<<), **options) }
    yield database
  ensure
    database&.close
  end

  # No attempt to connect is due before the server answers, however long the test takes.
  def without_pauses_of_its_own
    left = -> { @down ? 0.05 : 0.0 }
    NeverBlock::Postgres::Backoff.new.tap { |backoff| backoff.define_singleton_method(:left) { left.call } }
  end

  # @return [PG::ConnectionBad]
  def refused(database, n) = assert_raises(PG::ConnectionBad) { database.transaction { |connection| connection.exec("select #{n}") } }
end
