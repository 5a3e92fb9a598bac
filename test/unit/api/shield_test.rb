# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class ShieldTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_defers_a_cancellation_until_the_block_has_ended
    log = []
    in_run do |scope|
      gate = Thread::Queue.new
      task = parked(scope.spawn do
        value = NB.shield do
          gate.pop
          sleep 1
          :committed
        end
        log << value
        sleep
        log << :never
      end)
      task.cancel
      gate << :go
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
    assert_equal [:committed], log
  end

  def test_returns_the_blocks_value_or_error_also_outside_a_loop
    [->(&call) { in_run(&call) }, ->(&call) { call.call }].each do |place|
      assert_equal 1, place.call { NB.shield { 1 } }
      assert_equal "no", raised { place.call { NB.shield { raise "no" } } }.message
    end
    assert_match(/needs a block/, assert_raises(ArgumentError) { NB.shield }.message)
  end

  def test_a_task_cancelled_in_its_shield_without_a_further_wait_returns
    in_run do |scope|
      gate = Thread::Queue.new
      task = parked(scope.spawn { NB.shield { gate.pop && :committed } })
      task.cancel
      gate << :go
      assert_equal :committed, task.value
    end
  end

  def test_nested_shields
    log, gate = [], Thread::Queue.new
    in_run do |scope|
      task = parked(scope.spawn do
        NB.shield do
          NB.shield { gate.pop }
          sleep 1
          log << :still_shielded
        end
        sleep
      end)
      task.cancel
      gate << :go
      task.join
      assert_predicate task, :cancelled?
    end
    assert_equal [:still_shielded], log
  end

  def test_a_shield_left_by_an_exception_or_throw_ends
    in_run do |scope|
      task = parked(scope.spawn do
        raised { NB.shield { raise "no" } }
        catch(:out) { NB.shield { throw :out } }
        [1].each { NB.shield { break } }
        sleep
      end)
      task.cancel
      assert_predicate task.join(10), :cancelled?
    end
  end

  def test_tasks_spawned_in_a_shield_are_not_shielded
    in_run do |scope|
      task = nil
      NB.shield { (task = parked(scope.spawn { sleep })) && task.cancel }
      assert_predicate task.join, :cancelled?
    end
  end

  def test_a_nested_run_in_a_shield_is_waited_for
    log, gate = [], Thread::Queue.new
    in_run do |scope|
      task = parked(scope.spawn do
        NB.shield { NeverBlock.run { |inner| inner.spawn { gate.pop && log << :committed } } }
        sleep
      end)
      task.cancel
      gate << :go
      task.join
      assert_predicate task, :cancelled?
    end
    assert_equal [:committed], log
  end

  def test_a_failure_inside_a_nested_run_in_a_shield_is_not_deferred
    in_run do
      assert_equal "no", raised { NB.shield { NeverBlock.run { |inner| inner.spawn { raise "no" } && sleep } } }&.message
    end
  end

  def test_defers_the_failure_of_a_sibling
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn { NB.shield { sleep(5) && log << :committed } && sleep }
        scope.spawn { sleep(1) && raise("no") }
        NB.shield { sleep(3) && log << :block }
        sleep
      end
    end
    assert_equal ["no", [:block, :committed]], [error.message, log]
  end

  def test_an_enumerator_inside
    in_run do |scope|
      gate = Thread::Queue.new
      task = parked(scope.spawn do
        values = Enumerator.new { |yielder| yielder << gate.pop }
        NB.shield { values.next }.then { |value| NeverBlock::Task.current.name = "got #{value}" }
        sleep
      end)
      task.cancel
      gate << 1
      task.join
      assert_equal "got 1", task.name
    end
  end

  def test_an_enumerator_that_has_yielded_inside_does_not_protect_the_task
    in_run do |scope|
      values = Enumerator.new { |yielder| NB.shield { (yielder << 1) && yielder << 2 } }
      task = parked(scope.spawn { values.next && sleep })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
  end

  def test_a_timeout_around_an_enumerator_that_has_yielded_inside
    in_run do
      values = Enumerator.new { |yielder| NB.shield { (yielder << 1) && yielder << 2 } }
      error = raised { NB.timeout(5) { values.next && sleep } }
      assert_kind_of NeverBlock::TimeoutError, error
      assert_equal 2, values.next
    end
  end

  def test_inside_an_enumerator_that_waits
    log = []
    in_run do |scope|
      gate = Thread::Queue.new
      values = Enumerator.new { |yielder| yielder << NB.shield { NB.shield { nil } || gate.pop } }
      task = parked(scope.spawn { (log << values.next) && sleep })
      task.cancel
      gate << :taken
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
    assert_equal [:taken], log
  end
end
