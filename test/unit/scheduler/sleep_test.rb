# frozen_string_literal: true

# engines: every - the back end waits until the deadline

require "test_helper"
require "support/loops"

# sleep and its hook.
class SleepTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_sleepers_wake_in_the_order_of_their_deadlines
    deadlines = []
    in_loop do
      [0.03, 0.01, 0.02, 0.0].each do |seconds|
        NB.spawn do
          deadline = now + seconds # a slow machine begins the sleeps one after another
          sleep(seconds) and deadlines << deadline
        end
      end
    end
    assert_equal [4, deadlines.sort], [deadlines.size, deadlines]
  end

  def test_a_thousand_sleep_at_once
    start = now
    in_loop { 1_000.times { |i| NB.spawn { sleep(0.05 + (i % 10) * 0.001) } } }
    assert_operator now - start, :>=, 0.05
    assert_operator now - start, :<, 10
  end

  def test_never_too_short
    in_loop do
      [0.0001, 0.001, 0.0123, Rational(1, 100)].each do |seconds|
        start = now
        sleep(seconds)
        assert_operator now - start, :>=, seconds.to_f
      end
    end
  end

  def test_validates_as_kernel_sleep_does
    in_loop do
      assert_raises(ArgumentError) { sleep(-1) }
      assert_raises(TypeError) { sleep("1") }
      assert_raises(TypeError) { sleep(Object.new) }
      assert_raises(ArgumentError) { sleep(1, 2) }
      assert_kind_of Integer, sleep(0)
      assert_kind_of Integer, sleep(0.0)
    end
  end

  def test_deadlines_beyond_the_clocks_range
    in_loop do
      tasks = [1e15, 10**12, 1e9].map { |seconds| NB.spawn { sleep(seconds) } }
      NB.pass
      assert tasks.all?(&:alive?)
      tasks.each(&:cancel)
    end
  end

  def test_sleep_zero_lets_other_fibers_run_first
    order = []
    in_loop do
      NB.spawn { 3.times { |i| order << [:a, i] and sleep(0) } }
      NB.spawn { 3.times { |i| order << [:b, i] and sleep(0) } }
    end
    assert_equal [[:a, 0], [:b, 0], [:a, 1], [:b, 1], [:a, 2], [:b, 2]], order
  end

  def test_the_hook_called_directly
    standalone do |s|
      assert_equal false, s.kernel_sleep(0.001)
      assert_equal true, s.kernel_sleep(0)
      me = Fiber.current
      Fiber.schedule { sleep(0.001) and s.unblock(Mutex.new, me) } # as core ends Mutex#sleep
      assert_equal true, s.kernel_sleep(100)
      assert_raises(ArgumentError) { s.kernel_sleep(1, 2) }
    end
  end

  def test_ten_thousand_timers_armed_and_cancelled
    in_loop do
      10_000.times { Timeout.timeout(60) { sleep(0) } }
      assert_equal 0, Fiber.scheduler.statistics[:timers]
      tasks = Array.new(1_000) { NB.spawn { sleep(100) } }
      NB.pass
      assert_equal 1_000, Fiber.scheduler.statistics[:timers]
      tasks.shuffle(random: Random.new(7)).each(&:cancel)
      tasks.each { |task| outcome(task) }
      assert_equal 0, Fiber.scheduler.statistics[:timers]
    end
  end

  def test_mutex_sleep
    in_loop do
      mutex = Mutex.new
      mutex.synchronize do
        other = NB.spawn { mutex.synchronize { :had } }
        mutex.sleep(0.02)
        assert_equal :had, other.value
        assert_predicate mutex, :owned?
      end
    end
  end
end
