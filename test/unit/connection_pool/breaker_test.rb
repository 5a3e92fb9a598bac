# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/runs"
require "support/virtual_time"

class ConnectionPoolBreakerTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_after_failures_in_sequence_check_outs_are_refused
    pool = pool(failures: 2, cooldown: 3600)
    fail_once(pool)
    pool.with { nil }
    2.times { fail_once(pool) }
    error = assert_raises(NeverBlock::ConnectionPool::CircuitOpenError) { pool.with { flunk } }
    assert_match(/\Athe pool store(?: \(\d+\))? asks nothing for another 3600\.0 s: its last 2 uses failed, the last one by lost \(IOError\)\./, error.message)
    assert_kind_of NeverBlock::ConnectionPool::Error, error
    assert_equal true, pool.stats[:circuit_open]
  end

  def test_a_connection_that_can_not_be_opened_counts
    pool = NeverBlock::ConnectionPool.new(breaker: {failures: 1}) { raise Errno::ECONNREFUSED }
    assert_raises(Errno::ECONNREFUSED) { pool.checkout }
    assert_raises(NeverBlock::ConnectionPool::CircuitOpenError) { pool.checkout }
  end

  def test_after_a_while_one_is_let_through
    breaker = timed
    clock.advance(9)
    assert_equal true, breaker.open?
    clock.advance(1)
    assert_equal false, breaker.open?
    breaker.admit("store")
    assert_match(/ for another 10\.0 s: /, assert_raises(NeverBlock::ConnectionPool::CircuitOpenError) { breaker.admit("store") }.message)
    breaker.succeeded
    2.times { breaker.admit("store") }
  end

  def test_one_that_fails_again_begins_the_next_pause
    breaker = timed
    clock.advance(14)
    breaker.admit("store")
    clock.advance(3)
    breaker.failed(IOError.new("lost"))
    clock.advance(9)
    assert_raises(NeverBlock::ConnectionPool::CircuitOpenError) { breaker.admit("store") }
  end

  def test_one_that_is_let_through_and_never_ends_is_followed_by_another
    breaker = timed
    clock.advance(10)
    breaker.admit("store")
    clock.advance(10)
    breaker.admit("store")
  end

  def test_the_pause_ends_by_itself
    pool = pool(failures: 1, cooldown: 5)
    fail_once(pool)
    clock.advance(5)
    assert_equal false, pool.stats[:circuit_open]
    assert_equal :value, pool.with { :value }
    2.times { assert_equal :value, pool.with { :value } }
  end

  def test_timeouts_count_and_cancellations_do_not
    pool = pool(failures: 1, cooldown: 3600)
    in_run do |scope|
      task = parked(scope.spawn { pool.with { sleep } })
      task.cancel
      task.join
      catch(:out) { pool.with { throw :out } }
      Thread.new { pool.with { Thread.current.kill } }.join
      assert_equal false, pool.stats[:circuit_open]
      raised { NeverBlock.timeout(1) { pool.with { sleep } } }
    end
    assert_equal true, pool.stats[:circuit_open]
  end

  def test_harmless_errors_do_not_count
    pool = NeverBlock::ConnectionPool.new(keep_after: [KeyError], breaker: {failures: 1}) { Object.new }
    raised { pool.with { raise KeyError } }
    assert_equal false, pool.stats[:circuit_open]
  end

  def test_the_exceptions_that_count_can_be_named
    pool = pool(failures: 1, on: [IOError])
    raised { pool.with { raise "ours" } }
    assert_equal false, pool.stats[:circuit_open]
    fail_once(pool)
    assert_equal true, pool.stats[:circuit_open]
  end

  def test_a_fiber_with_a_connection_goes_on
    pool = pool(failures: 1, cooldown: 3600)
    in_run do |scope|
      pool.with do
        scope.spawn { fail_once(pool) }.join
        assert_equal :value, pool.with { :value }
      end
    end
  end

  def test_options_are_checked
    {failures: 0, cooldown: 0}.each do |option, value|
      assert_match(/\Abreaker: #{option}: 0 is not a /, assert_raises(ArgumentError) { pool(option => value) }.message)
    end
  end

  private

  def pool(**breaker) = NeverBlock::ConnectionPool.new(name: "store", breaker:) { Object.new }

  def timed
    NeverBlock::ConnectionPool::Breaker.new(failures: 1, cooldown: 10).tap { |breaker| breaker.failed(IOError.new("lost")) }
  end

  def fail_once(pool) = assert_kind_of(IOError, raised { pool.with { raise IOError, "lost" } })
end
