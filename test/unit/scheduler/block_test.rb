# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"

# block and unblock: wake-ups from fibers, early, late and stale. From threads: block_threads_test.rb.
class BlockTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def test_unblock_by_a_fiber
    standalone do |s|
      main = Fiber.current
      Fiber.schedule { sleep(5) and s.unblock(:x, main) }
      assert_equal(5.0, seconds_of { assert_equal true, s.block(:x) })
    end
  end

  def test_timeouts
    standalone do |s|
      assert_equal(3.0, seconds_of { assert_equal false, s.block(:x, 3) })
      assert_equal(0.0, seconds_of { assert_equal false, s.block(:x, 0) })
    end
  end

  # Another thread may call unblock before the fiber has entered block.
  def test_an_unblock_before_the_block_ends_the_block_at_once
    standalone do |s|
      s.unblock(:x, Fiber.current)
      assert_equal(0.0, seconds_of { assert_equal true, s.block(:x, 10) })
      assert_equal false, s.block(:x, 5), "a permit is used once"
    end
  end

  def test_an_early_wakeup_does_not_end_another_sleep
    standalone do |s|
      s.unblock(:x, Fiber.current)
      other = Fiber.schedule { sleep 1 }
      assert_predicate other, :alive?
      assert_equal(2.0, seconds_of { sleep 2 })
    end
  end

  # Both deadlines have passed when the loop looks; the first to run unblocks the second, whose timeout stands.
  def test_an_unblock_that_comes_after_the_timeout_is_dropped
    standalone do |s|
      late = nil
      Fiber.schedule { sleep(1) and s.unblock(:x, late) }
      late = Fiber.schedule do
        assert_equal false, s.block(:x, 2)
        assert_equal(20.0, seconds_of { assert_equal false, s.block(:y, 20) }, "the late unblock ended the next wait")
      end
      hold(5)
      pass_until("the end of the second wait") { !late.alive? }
    end
  end

  def test_an_unblock_of_a_fiber_that_waits_for_something_else
    standalone do |s|
      a, b = UNIXSocket.pair
      reader = Fiber.schedule { assert_equal(2.0, seconds_of { assert_nil a.wait_readable(2) }) }
      s.unblock(:x, reader)
      assert_equal(4.0, seconds_of { sleep 4 })
      refute_predicate reader, :alive?
      [a, b].each(&:close)
    end
  end

  def test_an_unblock_of_dead_fibers_and_fibers_of_other_loops
    standalone do |s|
      dead = Fiber.schedule {}
      assert_nil s.unblock(:x, dead)
      assert_nil s.unblock(:x, Fiber.new {})
      assert_nil s.unblock(:x, nil)
      assert_equal false, s.block(:x, 1)
    end
  end

  # A hand-off: what the fiber gets is unused until the fiber runs.
  def test_unblock_next_lets_a_fiber_run_before_those_that_are_due
    standalone do |s|
      order = []
      fibers = %i[a b c].map { |name| Fiber.schedule { s.block(name, 10) && order << name } }
      s.unblock(:a, fibers[0])
      s.unblock(:b, fibers[1])
      s.unblock_next(:other, fibers[2])
      2.times { s.unblock_next(:c, fibers[2]) }
      NB.pass while fibers.any?(&:alive?)
      assert_equal %i[c a b], order
      assert_nil s.unblock_next(:x, fibers[0]), "one that has ended"
      assert_nil s.unblock_next(:x, nil)
    end
  end

  # Ruby's own sample scheduler does so (test_fiber_scheduler.rb, test_deadlock).
  def test_a_subclass_whose_sleep_is_a_block
    sleepy = Class.new(NeverBlock::Scheduler) { def kernel_sleep(seconds = nil) = block(:sleep, seconds) || true }
    woken = false
    thread = Thread.new do
      Fiber.set_scheduler(sleepy.new)
      mutex, condition = Mutex.new, ConditionVariable.new
      Fiber.schedule { mutex.synchronize { condition.wait(mutex) && woken = true } }
      Fiber.schedule { mutex.synchronize { condition.signal } }
    end
    assert waiting_only { thread.join(NeverBlockTest::LIMIT) }, "the wait was not ended"
    assert woken
  ensure
    thread.kill
  end

  def test_unblock_after_close_does_nothing
    scheduler = fiber = nil
    standalone do |s|
      scheduler = s
      fiber = Fiber.current
    end
    assert_nil scheduler.unblock(:x, fiber)
  end

  # An interrupted close leaves operations behind; they unblock the closing fiber when they end.
  def test_only_a_lock_ends_a_sleep
    standalone do |s|
      reader, writer = IO.pipe
      sleeper = Fiber.schedule { sleep }
      timed = Fiber.schedule { sleep 60 }
      [:x, Queue.new, reader, Thread.current].each { |blocker| [sleeper, timed].each { |fiber| s.unblock(blocker, fiber) } }
      sleep 5
      assert_predicate sleeper, :alive?
      assert_predicate timed, :alive?
      [sleeper, timed].each { |fiber| s.unblock(Mutex.new, fiber) }
      pass_until("the end of both sleeps") { !sleeper.alive? && !timed.alive? }
      [reader, writer].each(&:close)
    end
  end
end
