# frozen_string_literal: true

require "test_helper"
require "neverblock"

class ConditionVariableTest < Minitest::Test
  # The wait takes its mutex again before it may be left, or the synchronize around it would unlock what it does not own.
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
end
