# frozen_string_literal: true

# engines: every - a wake-up of another thread ends the back end's wait

require "test_helper"
require "support/loops"

# block and unblock: wake-ups from fibers and from other threads, early, late and stale.
class BlockTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # ---- the hooks themselves ----
  def test_unblock_by_a_fiber
    standalone do |s|
      main = Fiber.current
      Fiber.schedule { sleep(0.005) and s.unblock(:x, main) }
      assert_equal true, s.block(:x)
    end
  end

  def test_unblock_by_a_thread
    standalone do |s|
      main = Fiber.current
      thread = Thread.new { sleep(0.01) and s.unblock(:x, main) }
      assert_equal true, s.block(:x, 10)
      thread.join
    end
  end

  def test_timeouts
    standalone do |s|
      start = now
      assert_equal false, s.block(:x, 0.03)
      assert_operator now - start, :>=, 0.029
      assert_equal false, s.block(:x, 0)
    end
  end

  # Another thread may call unblock before the fiber has entered block.
  def test_an_unblock_before_the_block_ends_the_block_at_once
    standalone do |s|
      s.unblock(:x, Fiber.current)
      assert_equal true, s.block(:x, 10)
      assert_equal false, s.block(:x, 0.005), "a permit is used once"
    end
  end

  def test_an_early_wakeup_does_not_end_another_sleep
    standalone do |s|
      s.unblock(:x, Fiber.current)
      other = Fiber.schedule { sleep 0.01 }
      assert_predicate other, :alive?
      start = now
      sleep 0.02
      assert_operator now - start, :>=, 0.019
    end
  end

  # Both deadlines have passed when the loop looks; the first to run unblocks the second, whose timeout stands.
  def test_an_unblock_that_comes_after_the_timeout_is_dropped
    standalone do |s|
      late = nil
      Fiber.schedule { sleep(0.001) and s.unblock(:x, late) }
      late = Fiber.schedule do
        assert_equal false, s.block(:x, 0.002)
        start = now
        assert_equal false, s.block(:y, 0.02)
        assert_operator now - start, :>=, 0.019, "the late unblock ended the next wait"
      end
      busy = now + 0.005
      nil while now < busy
      pass_until("the end of the second wait") { !late.alive? }
    end
  end

  def test_an_unblock_of_a_fiber_that_waits_for_something_else
    standalone do |s|
      a, b = UNIXSocket.pair
      reader = Fiber.schedule { assert_nil a.wait_readable(0.02) }
      s.unblock(:x, reader)
      start = now
      sleep 0.04
      assert_operator now - start, :>=, 0.039
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
      assert_equal false, s.block(:x, 0.001)
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

  def test_unblock_next_by_a_thread
    standalone do |s|
      main = Fiber.current
      thread = Thread.new { sleep(0.01) and s.unblock_next(:x, main) }
      assert_equal true, s.block(:x, 10)
      thread.join
      s.unblock_next(:x, Fiber.current)
      assert_equal true, s.block(:x, 10), "it came before the block"
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
    assert thread.join(10), "the wait was not ended"
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
      sleep 0.005
      assert_predicate sleeper, :alive?
      assert_predicate timed, :alive?
      [sleeper, timed].each { |fiber| s.unblock(Mutex.new, fiber) }
      pass_until("the end of both sleeps") { !sleeper.alive? && !timed.alive? }
      [reader, writer].each(&:close)
    end
  end

  # ---- tens of thousands of wake-ups ----
  slow "threads take turns"
  def test_wake_ups_from_threads
    in_loop do
      requests, answers = Queue.new, Queue.new
      threads = Array.new(3) { Thread.new { while (n = requests.pop) do answers << n end } }
      tasks = Array.new(4) do
        NB.spawn { Array.new(2_500) { |i| requests << i and answers.pop }.sum }
      end
      assert_equal 4 * 2_500 * 2_499 / 2, tasks.sum(&:value)
      3.times { requests << nil }
      threads.each(&:join)
    end
  end

  # Native threads post without Ruby's lock, at any moment before the loop sleeps.
  def test_wake_ups_from_native_threads
    in_loop do
      scheduler = Fiber.scheduler
      tasks = Array.new(4) do
        NB.spawn { 2_500.times { scheduler.getaddrinfo("127.0.0.1", nil, Socket::AF_INET, Socket::SOCK_STREAM, 0, Socket::AI_NUMERICHOST) } }
      end
      tasks.each(&:join)
      assert_equal 0, scheduler.statistics[:jobs]
    end
  end

  def test_loops_that_wake_one_another
    to_left, to_right = Queue.new, Queue.new
    right = Thread.new { NeverBlock.run { NB.spawn { 3_000.times { to_left << to_right.pop } } } }
    on_thread { NeverBlock.run { NB.spawn { 3_000.times { |i| to_right << i and to_left.pop == i or raise "order" } } } }
    assert right.join(10)
  end
end
