# frozen_string_literal: true

require "test_helper"
require_relative "../../support/loops"

# Who gets a connection, and that none is lost: without a server.
class MySQLPoolTest < Minitest::Test
  include NeverBlockTest::Loops

  def setup
    skip "trilogy is not among the gems here" unless Gem.loaded_specs.key?("trilogy")
    require "neverblock/mysql"
  end

  def test_first_come_first_served
    pool = pool(connections: 1)
    in_loop do
      first = holder
      pool.acquire("first", first)
      order = []
      tasks = 3.times.map do |n|
        NB.spawn do
          mine = holder
          pool.acquire(n.to_s, mine)
          order << n
          pool.release(mine.held, mine)
        end
      end
      NB.pass
      assert_equal 3, pool.stats[:waiting]
      pool.release(first.held, first)
      tasks.each(&:value)
      assert_equal [0, 1, 2], order
      assert_equal [1, 1, 0], pool.stats.values_at(:connections, :idle, :busy)
    end
  end

  def test_a_parked_connection_is_found_again_unless_it_was_needed
    pool = pool(connections: 1)
    mine, other = holder, holder
    connection = pool.acquire("a", mine)
    pool.park(connection, mine, nil)
    assert_nil mine.held
    assert pool.unpark(connection, mine)
    pool.park(connection, mine, nil)
    assert_same connection, pool.acquire("b", other)
    refute pool.unpark(connection, mine)
    pool.park(connection, other, nil)
    refute pool.unpark(connection, mine), "it is another's now"
    assert pool.unpark(connection, other)
  end

  # Who takes it asks for the value first; a value that can't be had any more is not waited for.
  def test_what_a_parked_connection_has_is_saved
    pool = pool(connections: 1)
    mine, other = holder, holder
    saved = NeverBlock::MySQL::SavedInsertId.new(0, [7])
    pool.park(pool.acquire("a", mine), mine, saved)
    connection = pool.acquire("b", other)
    assert_equal 7, saved.value
    lost = NeverBlock::MySQL::SavedInsertId.new(0, [7])
    pool.park(connection, other, lost)
    connection.alive = false
    pool.acquire("c", holder)
    assert_nil lost.value
    assert_equal 2, pool.stats[:opened]
  end

  def test_a_connection_that_can_not_be_opened_leaves_room
    fails = 1
    pool = pool(connections: 1) { ((fails -= 1) >= 0) ? raise("no") : connection }
    mine = holder
    assert_equal "no", assert_raises(RuntimeError) { pool.acquire("a", mine) }.message
    assert_nil mine.held
    pool.acquire("a", mine)
    assert_equal 1, pool.stats[:connections]
  end

  # A fiber with a connection waits for a lock, and its owner for a connection.
  def test_the_owner_of_a_lock_gets_a_connection_beyond_the_limit
    pool = pool(connections: 1)
    in_loop do
      lock = Monitor.new
      first, other, owner = Array.new(3) { holder }
      go = Thread::Queue.new
      tasks = [
        NB.spawn { pool.acquire("first", first) && go.pop && lock.synchronize { pool.release(first.held, first) } },
        NB.spawn { lock.synchronize { pool.acquire("owner", owner) && pool.stats.values_at(:connections, :busy, :waiting).tap { pool.release(owner.held, owner) } } },
        NB.spawn { pool.acquire("other", other) && pool.release(other.held, other) }
      ]
      NB.pass until pool.stats[:waiting] == 2
      go << true
      assert_equal [2, 2, 1], tasks[1].value
      tasks.each(&:value)
      assert_equal [1, 1, 0, 2, 1], pool.stats.values_at(:connections, :idle, :busy, :opened, :closed)
    end
  end

  # Timeout and Thread#raise may come when any method or block ends.
  def test_an_exception_from_outside_at_each_point_loses_no_connection
    points = 0
    loop do
      pool = pool(connections: 1, timeout: 0.5)
      came = interrupted(points) { use(pool) }
      assert_equal 0, pool.stats.values_at(:busy, :waiting).sum, "point #{points}"
      use(pool)
      break unless came
      points += 1
    end
    assert_operator points, :>, 5
  end

  def test_an_exception_from_outside_at_each_point_of_a_wait
    points = 0
    loop do
      pool = pool(connections: 1, timeout: NeverBlockTest::LIMIT)
      mine = holder
      pool.acquire("held", mine)
      thread = Thread.new { interrupted(points) { use(pool) } }
      NeverBlockTest.wait_until("the thread to wait or to end") { pool.stats[:waiting] == 1 || !thread.alive? }
      pool.release(mine.held, mine)
      came = thread.value
      assert_equal 0, pool.stats.values_at(:busy, :waiting).sum, "point #{points}"
      use(pool)
      break unless came
      points += 1
    end
    assert_operator points, :>, 5
  end

  private

  # An exception that is not the driver's.
  class Outside < StandardError; end

  def use(pool)
    mine = holder
    begin
      pool.acquire("use", mine)
      pool.release(mine.held, mine)
    ensure
      pool.abandon(mine) if mine.held
    end
  end

  # @return [Boolean] whether there were so many points in the pool's code
  def interrupted(point)
    left = point
    trace = TracePoint.new(:return, :b_return) do |event|
      next unless event.path.end_with?("mysql/pool.rb")
      left -= 1
      raise Outside if left == -1
    end
    trace.enable(target_thread: Thread.current) { yield }
    false
  rescue Outside
    true
  end

  def pool(connections:, timeout: 5, max_waiting: 10, &open)
    open ||= -> { connection }
    NeverBlock::MySQL::Pool.new(connections:, timeout:, max_waiting:, &open)
  end

  def connection = fake.new(true)

  # The pool knows a connection by its class.
  def fake
    @fake ||= Class.new(NeverBlock::MySQL::Connection) do
      attr_writer :alive
      def initialize(alive) # standard:disable Lint/MissingSuper
        @alive = alive
        @opened_at = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def alive? = @alive
      def insert_id = 7
      def close = @alive = false
    end
  end

  def holder = NeverBlock::MySQL::Holder.new
end
