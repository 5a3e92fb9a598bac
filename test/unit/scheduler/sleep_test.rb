# frozen_string_literal: true

# engines: every - the back end waits until the deadline

require "test_helper"
require "support/loops"
require "support/virtual_time"

# sleep and its hook. The kernel's timers: test/integration/engine/kernel_timers_test.rb.
class SleepTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def test_sleepers_wake_in_the_order_of_their_deadlines
    woken = []
    in_loop { [3, 1, 2, 0].each { |seconds| NB.spawn { sleep(seconds) and woken << [seconds, clock.elapsed] } } }
    assert_equal [[0, 0.0], [1, 1.0], [2, 2.0], [3, 3.0]], woken
  end

  def test_a_thousand_sleep_at_once
    woken = []
    in_loop { 1_000.times { |i| NB.spawn { sleep(5 + i % 10) and woken << clock.elapsed } } }
    assert_equal (5.0..14.0).step(1).flat_map { |second| [second] * 100 }, woken
  end

  def test_any_number_of_seconds
    in_loop do
      [0.0001, 0.001, 12.3, 7, Rational(1, 100)].each { |seconds| assert_in_delta seconds, seconds_of { sleep(seconds) }, 1e-6 }
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
      assert_equal(5.0, seconds_of { assert_equal false, s.kernel_sleep(5) })
      assert_equal(0.0, seconds_of { assert_equal true, s.kernel_sleep(0) })
      me = Fiber.current
      Fiber.schedule { sleep(1) and s.unblock(Mutex.new, me) } # as core ends Mutex#sleep
      assert_equal(1.0, seconds_of { assert_equal true, s.kernel_sleep(100) })
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
        assert_equal(2.0, seconds_of { mutex.sleep(2) })
        assert_equal :had, other.value
        assert_predicate mutex, :owned?
      end
    end
  end
end
