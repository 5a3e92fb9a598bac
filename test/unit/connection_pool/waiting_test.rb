# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/counted_clients"
require "support/virtual_time"

# Waits for a connection of a pool: their order, their limits, and how they end.
class ConnectionPoolWaitingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CountedClients
  include NeverBlockTest::VirtualTime

  def test_waiters_are_served_in_order
    pool, log = pool(size: 1), []
    in_run do |scope|
      pool.with do
        5.times { |number| parked(scope.spawn { pool.with { log << number } }) }
        assert_equal 5, pool.stats[:waiting]
      end
      # Free at once, it is not for a newcomer.
      assert_equal [0, 5], [pool.available, pool.with { log.size }]
    end
    assert_equal [0, 1, 2, 3, 4], log
    assert_equal 6, pool.stats[:waits]
  end

  def test_a_timeout_names_the_holders_and_their_ages
    pool = pool(size: 2, timeout: 10, name: "sessions")
    line = error = nil
    in_run do |scope|
      line = __LINE__ + 1
      parked(scope.spawn(name: "import") { pool.with { sleep } })
      parked(scope.spawn { pool.with { sleep } })
      error = raised { pool.with { flunk } }
      scope.cancel
    end
    assert_kind_of NeverBlock::ConnectionPool::TimeoutError, error
    assert_kind_of Timeout::Error, error
    assert_kind_of NeverBlock::Error, error
    assert_match(/\Ano connection of the pool sessions became free within 10 s: 2 of 2 are held \(/, error.message)
    assert_match(/import for 10\.0 s, now at #{Regexp.escape(__FILE__)}:#{line}/, error.message)
    assert_match(/a task for 10\.0 s/, error.message)
    assert_match(/Raise size:, hold them for less long, or bound what runs at a time\z/, error.message)
    assert_equal 1, pool.stats[:timeouts]
  end

  def test_waiters_are_bounded
    pool = pool(size: 1, max_waiting: 1)
    in_run do |scope|
      pool.with do
        waiter = parked(scope.spawn { pool.with { :late } })
        error = raised { scope.spawn { pool.with { flunk } }.value }
        assert_kind_of NeverBlock::OverloadError, error
        assert_match(/\A1 wait for a connection of the pool .* already \(max_waiting:\): 1 of 1 are held/, error.message)
        assert_equal [1, 1], pool.stats.values_at(:refused, :waiting)
        pool.discard_current_connection
        scope.spawn { assert_equal :late, waiter.value }
      end
    end
  end

  def test_a_wait_may_have_its_own_timeout
    pool = pool(size: 1, timeout: nil)
    in_run do |scope|
      holder = parked(scope.spawn { pool.with { sleep } })
      assert_match(/within 0 s/, raised { pool.with(timeout: 0) { flunk } }.message)
      assert_match(/within 1 s/, raised { pool.checkout(timeout: 1) }.message)
      assert_nil pool.try_checkout
      holder.cancel
    end
    assert_kind_of Client, pool.try_checkout
    pool.checkin
  end

  def test_a_cancelled_waiter_leaves_the_queue
    pool = pool(size: 1)
    in_run do |scope|
      pool.with do
        first = parked(scope.spawn { pool.with { flunk } })
        second = parked(scope.spawn { pool.with { :second } })
        first.cancel
        first.join
        assert_equal 1, pool.stats[:waiting]
        scope.spawn { assert_equal :second, second.value }
      end
    end
    assert_equal [1, 0], [pool.idle, pool.stats[:interrupted]]
  end

  def test_a_waiter_that_is_cancelled_as_it_gets_its_connection_passes_it_on
    pool = pool(size: 1)
    in_run do |scope|
      pool.checkout
      first = parked(scope.spawn { pool.with { NB.pass } })
      second = parked(scope.spawn { pool.with { :second } })
      pool.checkin # the first has its place now, and has not run since
      first.cancel
      assert_equal :second, second.value
    end
    assert_equal [1, 0], [pool.available, pool.stats[:waiting]]
  end

  def test_a_thread_that_is_interrupted_as_it_gets_its_connection_passes_it_on
    pool = pool(size: 1, timeout: nil)
    pool.checkout
    first, second = Array.new(2) do |number|
      thread = Thread.new { pool.with { number } }
      wait_until { pool.stats[:waiting] == number + 1 && thread.stop? }
      thread
    end
    first.report_on_exception = false
    pool.checkin
    first.raise("given up")
    raised { first.join }
    assert second.join(NeverBlockTest::LIMIT), "the second waits for ever"
    assert_equal [1, 1], [second.value, pool.available]
  end

  def test_a_connection_that_can_not_be_opened_leaves_its_place_to_the_next
    tries = 0
    pool = NeverBlock::ConnectionPool.new(size: 1) { ((tries += 1) < 3) ? raise(Errno::ECONNREFUSED) : :open }
    in_run do |scope|
      tasks = Array.new(3) { scope.spawn { raised { pool.with { |connection| throw :never unless connection == :open } } } }
      assert_equal [Errno::ECONNREFUSED, Errno::ECONNREFUSED, NilClass], tasks.map { |task| task.value.class }
    end
    assert_equal [1, 1], [pool.available, pool.idle]
  end

  def test_one_that_opens_does_not_keep_others_from_idle_connections
    gate = Thread::Queue.new
    pool = NeverBlock::ConnectionPool.new(size: 2) { gate.pop }
    in_run do |scope|
      gate << :first
      pool.with { |first| assert_equal :first, first }
      opening = nil
      pool.with do
        opening = parked(scope.spawn { pool.with { |other| other } })
        assert_equal 2, pool.stats[:held]
      end
      assert_equal :first, pool.with { |connection| connection }
      gate << :second
      assert_equal :second, opening.value
    end
  end

  def test_a_waiter_gets_it_at_its_timeout_if_the_fiber_ends_later
    pool = pool(size: 1, timeout: 0.02)
    in_run do |scope|
      scope.spawn { pool.checkout && NB.pass }
      NB.pass
      assert_equal 0, pool.with { |client| client.closes }
    end
    assert_equal [1, 0], @clients.map(&:closes)
  end
end
