# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "monitor"
require "support/virtual_time"

class ConditionVariableTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  # The wait reacquires its mutex before it is left; otherwise the synchronize around it would unlock a mutex that it
  # doesn't own.
  def test_a_cancellation_waits_for_the_mutex
    log = []
    mutex = Mutex.new
    condition = ConditionVariable.new
    NeverBlock.run do
      task = NeverBlock.spawn do
        mutex.synchronize do
          condition.wait(mutex)
          log << mutex.owned?
          sleep
        end
      end
      NeverBlock.pass until task.waits_for == "the end of a sleep"
      mutex.synchronize do
        condition.signal
        NeverBlock.pass until task.waits_for&.include?("Mutex")
        task.cancel
        NeverBlock.pass
        assert_predicate task, :alive?
      end
      task.join
      assert_predicate task, :cancelled?
    end
    assert_equal [true], log
    refute_predicate mutex, :locked?
  end

  def test_a_timed_out_wait_returns_nil
    mutex, condition = Mutex.new, ConditionVariable.new
    NeverBlock.run do
      [0, 3].each do |limit|
        mutex.synchronize do
          assert_equal(limit, seconds_of { assert_nil condition.wait(mutex, limit) })
          assert_equal(limit, seconds_of { assert_nil mutex.sleep(limit) })
        end
      end
      monitor = Monitor.new
      assert_equal(3, seconds_of { assert_equal false, monitor.synchronize { monitor.new_cond.wait(3) } })
    end
  end

  def test_a_wait_woken_in_time_returns_a_true_value
    mutex, condition = Mutex.new, ConditionVariable.new
    NeverBlock.run do |scope|
      task = scope.spawn do
        mutex.synchronize do
          condition.wait(mutex, 3) # late; the next one isn't
          condition.wait(mutex, 60)
        end
      end
      clock.advance(5)
      mutex.synchronize { condition.signal }
      assert_kind_of Integer, task.value
    end
  end
end
