# frozen_string_literal: true

# engines: every - a cancelled wait is withdrawn from the back end

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "monitor"
require "tempfile"

# Task#cancel by the state of the task, its waiters and its resources. A cancellation in each kind of wait:
# cancellation_waits_test.rb.
class CancellationTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # ---- in every state ----
  def test_an_unstarted_task_never_runs
    in_run do |scope|
      task = scope.spawn do
        flunk "it ran"
      ensure
        flunk "its ensure ran"
      end
      assert_equal true, task.cancel
      assert_equal [:cancelled, false], [task.state, task.alive?]
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_same task, task.join
    end
  end

  def test_a_finished_task
    in_run do |scope|
      task = scope.spawn { 1 }
      task.join
      assert_equal false, task.cancel
      assert_equal 1, task.value
      failed = scope.spawn { raise "no" }
      raised { failed.join }
      assert_equal [false, :failed], [failed.cancel, failed.state]
    end
  end

  def test_a_task_that_cancels_itself_ends_at_its_next_wait
    log = []
    in_run do |scope|
      task = scope.spawn do
        log << NeverBlock::Task.current.cancel
        log << :goes_on
        sleep 0
        log << :never
      end
      task.join
      assert_equal [true, :goes_on], log
      assert_predicate task, :cancelled?
    end
  end

  def test_a_running_task_without_a_further_wait_returns_its_value
    in_run do |scope|
      task = scope.spawn { NeverBlock::Task.current.cancel && :value }
      assert_equal :value, task.value
      assert_equal :returned, task.state
    end
  end

  def test_a_task_queued_in_a_pool
    log = []
    in_run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep 0.5 and log << 1 }
      queued = pool.spawn { log << :never }
      last = pool.spawn { log << 2 }
      assert_equal true, queued.cancel
      assert_predicate queued, :cancelled?
      last.join
      assert_equal [1, 2], log
      assert_equal({size: 1, running: 0, queued: 0, finished: 3, failed: 0}, pool.stats)
    end
  end

  def test_a_woken_task_gets_its_item_before_the_cancellation
    in_run do |scope|
      queue, log, task = popping(scope)
      queue << :item
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal [[:item], 0], [log, queue.size]
    end
  end

  def test_an_item_pushed_after_the_cancellation_is_not_lost
    in_run do |scope|
      queue, log, task = popping(scope)
      task.cancel
      queue << :item # Ruby assigns it to the waiter, which has not run yet
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      log << queue.pop(true) if log.empty?
      assert_equal [:item], log
    end
  end

  # ---- once ----
  def test_is_raised_once
    log = []
    in_run do |scope|
      task = parked(scope.spawn do
        sleep
      ensure
        3.times { sleep 0.1 }
        log << :undisturbed
      end)
      3.times { assert_equal true, task.cancel }
      NB.pass
      3.times { assert_equal true, task.cancel }
      task.join
      assert_equal [[:undisturbed], :cancelled], [log, task.state]
    end
  end

  def test_a_task_that_rescues_it_continues
    in_run do |scope|
      task = parked(scope.spawn do
        begin
          sleep
        rescue NeverBlock::Cancelled
        end
        sleep 0.1
        :went_on
      end)
      task.cancel
      assert_equal :went_on, task.value
    end
  end

  def test_is_not_a_standard_error_and_not_a_neverblock_error
    assert_operator NeverBlock::Cancelled, :<, Exception
    refute_operator NeverBlock::Cancelled, :<, StandardError
    refute_includes NeverBlock::Cancelled.ancestors, NeverBlock::Error
    in_run do |scope|
      task = parked(scope.spawn do
        sleep
      rescue StandardError, NeverBlock::Error # standard:disable Lint/ShadowedException
        flunk "swallowed"
      end)
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
  end

  def test_a_cancelled_raised_by_user_code_is_a_failure
    error = raised { in_run { |scope| scope.spawn { raise NeverBlock::Cancelled, "by hand" } } }
    assert_equal "by hand", error.message
  end

  def test_an_ensure_that_raises_makes_it_a_failure
    error = raised do
      in_run do |scope|
        parked(scope.spawn do
          sleep
        ensure
          raise "ensure"
        end).cancel
      end
    end
    assert_equal ["ensure", NeverBlock::Cancelled], [error.message, error.cause.class]
  end

  def test_an_ensure_may_spawn_nested_and_wait_for_it
    log = []
    in_run do |scope|
      parked(scope.spawn do
        sleep
      ensure
        NeverBlock.run { |cleaning| 2.times { |i| cleaning.spawn { sleep(0.1) && log << i } } }
        log << NeverBlock.timeout(10) { sleep(0.1) && :timeout }
        log << NB.offload { :offload }
      end).cancel
    end
    assert_equal [0, 1, :offload, :timeout], log.sort_by(&:to_s)
  end

  # ---- waiters of a cancelled task ----
  def test_value_raises_it_and_join_returns
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      value, join = scope.spawn { raised { task.value }.class }, scope.spawn { task.join.equal?(task) }
      [value, join].each { |waiter| parked(waiter) }
      task.cancel
      assert_equal [NeverBlock::Cancelled, true], [value.value, join.value]
    end
  end

  def test_cancelling_a_waiter_does_not_cancel_its_task
    in_run do |scope|
      gate = Thread::Queue.new
      task = scope.spawn { gate.pop }
      waiter = parked(scope.spawn { task.value })
      waiter.cancel
      assert_kind_of NeverBlock::Cancelled, raised { waiter.value }
      gate << :value
      assert_equal :value, task.value
    end
  end

  def test_two_tasks_that_cancel_each_other
    in_run do |scope|
      second, gate = nil, Thread::Queue.new
      first = parked(scope.spawn { gate.pop && second.cancel && sleep })
      second = parked(scope.spawn { gate.pop && first.cancel && sleep })
      2.times { gate << :go } # both are woken before either goes on
      assert_equal %i[cancelled cancelled], [first, second].map { |task| task.join.state }
    end
  end

  def test_a_task_that_cancels_its_waiter
    in_run do |scope|
      waiter = nil
      task = scope.spawn { sleep(0.1) && waiter.cancel && sleep(0.1) && :value }
      waiter = scope.spawn { task.value }
      assert_kind_of NeverBlock::Cancelled, raised { waiter.value }
      assert_equal :value, task.value
    end
  end

  # ---- resources ----
  def test_resources_in_block_form_are_released
    in_run do |scope|
      mutex, monitor, semaphore = Thread::Mutex.new, Monitor.new, NB::Semaphore.new(1)
      file = Tempfile.create
      task = parked(scope.spawn do
        mutex.synchronize { monitor.synchronize { semaphore.acquire { File.open(file.path) { |f| f.flock(File::LOCK_EX) && sleep } } } }
      end)
      task.cancel
      task.join
      refute_predicate mutex, :locked?
      assert monitor.try_enter
      assert_equal 1, semaphore.available
      File.open(file.path) { |handle| assert_equal 0, handle.flock(File::LOCK_EX | File::LOCK_NB) }
    ensure
      file&.close
      File.unlink(file.path) if file
    end
  end

  def test_a_condition_variable_retakes_the_mutex_before_the_ensures
    in_run do |scope|
      mutex, owned = Thread::Mutex.new, nil
      task = parked(scope.spawn do
        mutex.synchronize do
          Thread::ConditionVariable.new.wait(mutex)
        ensure
          owned = mutex.owned?
        end
      end)
      task.cancel
      task.join
      assert_equal [true, false], [owned, mutex.locked?]
    end
  end

  def test_a_mutex_goes_to_the_next_when_a_waiter_is_cancelled
    in_run do |scope|
      mutex, log, gate = Thread::Mutex.new, [], Thread::Queue.new
      parked(scope.spawn { mutex.synchronize { gate.pop } })
      cancelled = scope.spawn { mutex.synchronize { log << :never } }
      last = scope.spawn { mutex.synchronize { log << :last } }
      parked(cancelled).cancel
      gate << :free
      last.join
      assert_equal [:last], log
    end
  end

  slow "ten thousand tasks"
  def test_ten_thousand_cancelled_tasks_leave_nothing
    on_thread do
      NeverBlock.run(exit: :cancel) do |scope|
        Array.new(5_000) { scope.spawn { sleep } }
        Array.new(5_000) { scope.spawn { Timeout.timeout(60) { Thread::Queue.new.pop } } }
        NB.pass
      end
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  # ---- by force ----
  def test_force_passes_shields_and_cancels_again
    log = []
    in_run do |scope|
      task = parked(scope.spawn do
        NB.shield do
          sleep
        ensure
          begin
            sleep
          rescue NeverBlock::Cancelled
            log << :second
          end
        end
      end)
      task.cancel
      sleep 0.5
      assert_predicate task, :alive?
      task.cancel(force: true)
      sleep 0.1
      task.cancel
      assert_predicate task, :alive?
      task.cancel(force: true)
      task.join
      assert_equal [:second], log
    end
  end

  private

  # @return [Array(Thread::Queue, Array, NeverBlock::Task)] a queue, and a task that waits for an item and logs it
  def popping(scope)
    queue, log = Thread::Queue.new, []
    task = parked(scope.spawn do
      log << queue.pop
      sleep
    end)
    [queue, log, task]
  end
end
