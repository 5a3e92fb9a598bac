# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class CancelReasonTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_the_reason_is_in_the_exception
    in_run do |scope|
      inside = nil
      task = parked(scope.spawn { raise(inside = raised { sleep }) })
      task.cancel(:client_left)
      outside = raised { task.value }
      assert_same inside, outside
      assert_equal :client_left, outside.reason
      assert_equal "the task was cancelled: client_left", outside.message
      assert_match(/cancel_reason_test/, outside.backtrace.first)
    end
  end

  def test_without_a_reason
    in_run do |scope|
      tasks = [parked(scope.spawn { sleep }), scope.spawn { sleep }].each(&:cancel)
      tasks.each do |task|
        error = raised { task.value }
        assert_nil error.reason
        assert_equal "the task was cancelled", error.message
      end
    end
  end

  def test_of_a_task_that_has_not_started
    in_run do |scope|
      task = scope.spawn { flunk "it ran" }
      task.cancel("too late")
      2.times { assert_equal "the task was cancelled: too late", raised { task.value }.message }
    end
  end

  def test_an_exception_as_the_reason
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      task.cancel(IOError.new("no line"))
      assert_equal "the task was cancelled: no line (IOError)", raised { task.value }.message
    end
  end

  def test_an_error_of_the_reasons_to_s_is_raised_by_message
    reason = Class.new { def to_s = raise("no text") }.new
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      task.cancel(reason)
      error = raised { task.value }
      assert_same reason, error.reason
      assert_equal "no text", raised { error.message }.message
    end
  end

  def test_false_is_a_reason
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      task.cancel(false)
      assert_equal [false, "the task was cancelled: false"], raised { task.value }.then { |error| [error.reason, error.message] }
    end
  end

  def test_the_first_delivered_reason_stays_and_force_brings_its_own
    in_run do |scope|
      reasons = []
      task = parked(scope.spawn do
        sleep
      rescue NeverBlock::Cancelled => first
        reasons << first.reason
        begin
          sleep
        rescue NeverBlock::Cancelled => second
          reasons << second.reason
        end
      end)
      task.cancel(:first)
      NB.pass
      assert task.cancel(:ignored), "it comes once"
      pass_until("the first") { reasons.size == 1 && task.waits_for }
      task.cancel(:forced, force: true)
      task.join
      assert_equal %i[first forced], reasons
    end
  end

  def test_a_later_reason_replaces_a_deferred_one
    in_run do |scope|
      task = parked(scope.spawn do
        NeverBlock.shield { sleep 0.5 }
        sleep
      end)
      task.cancel(:early)
      task.cancel(:late)
      task.cancel
      assert_equal :late, raised { task.value }.reason
    end
  end

  def test_of_a_scope
    in_run do
      tasks = []
      NeverBlock.run do |scope|
        tasks << parked(scope.spawn { sleep }) << scope.spawn { sleep }
        assert_same scope, scope.cancel("shutting down")
        tasks << scope.spawn { flunk "it ran" }
      end
      assert_equal ["shutting down"] * 3, tasks.map { |task| raised { task.value }.reason }
    end
  end

  def test_a_failure_is_the_reason_of_the_tasks_that_it_cancels
    tasks = []
    error = raised do
      in_run do |scope|
        tasks << scope.spawn { NeverBlock.run { |inner| tasks << inner.spawn { sleep } } }
        parked(tasks.first)
        parked(tasks.last)
        scope.spawn { raise ArgumentError, "no such page" }
        sleep
      end
    end
    assert_equal [error] * 2, tasks.map { |task| raised { task.value }.reason }
    assert_equal "the task was cancelled: no such page (ArgumentError)", raised { tasks.first.value }.message
  end

  def test_a_failure_is_the_reason_in_the_scopes_that_its_block_has_opened
    task = nil
    error = raised do
      in_run do |scope|
        scope.spawn { pass_until("the task") { task&.waits_for } && raise(ArgumentError, "no such page") }
        NeverBlock.run { NeverBlock.run(exit: :cancel) { |inner| (task = inner.spawn { sleep }) && sleep } }
      end
    end
    assert_same error, raised { task.value }.reason
  end

  def test_a_timeout_is_the_reason_of_the_tasks_that_it_cancels
    in_run do
      tasks = []
      NeverBlock.move_on_after(5) { NeverBlock.run { |inner| (tasks << inner.spawn { sleep }) && sleep } }
      NeverBlock.move_on_after(5) { NeverBlock.run { |inner| tasks << inner.spawn { sleep } } }
      assert_equal ["execution expired"] * 2, tasks.map { |task| raised { task.value }.reason.message }
    end
  end

  def test_a_cancelled_task_passes_its_reason_to_its_scope
    in_run do |scope|
      inner = nil
      holder = scope.spawn { NeverBlock.run { |nested| inner = nested.spawn { sleep } } }
      pass_until("the inner task") { inner&.waits_for }
      holder.cancel(:closing)
      assert_equal :closing, raised { inner.value }.reason
    end
  end

  def test_from_another_thread
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      Thread.new { task.cancel("by a thread") }.join
      assert_equal "by a thread", raised { task.value }.reason
    end
  end

  def test_the_reason_survives_garbage_collection
    in_run do |scope|
      task = parked(scope.spawn { NeverBlock.shield { sleep 0.5 } && sleep })
      task.cancel(+"a reason " + "of its own")
      3.times { GC.start }
      assert_equal "a reason of its own", raised { task.value }.reason
    end
  end

  def test_cancelled_is_constructed_like_other_exceptions
    assert_equal "mine", assert_raises(NeverBlock::Cancelled) { raise NeverBlock::Cancelled, "mine" }.message
    assert_equal "the task was cancelled", NeverBlock::Cancelled.new.message
    refute_kind_of StandardError, NeverBlock::Cancelled.new
    refute_kind_of NeverBlock::Error, NeverBlock::Cancelled.new
  end
end
