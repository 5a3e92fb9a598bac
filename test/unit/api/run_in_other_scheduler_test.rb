# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/other_scheduler"

# Inside another scheduler run takes a thread of its own while the caller's fiber parks.
class OtherSchedulerTest < Minitest::Test
  include NeverBlockTest::Runs

  # Runs the block in a fiber of the other scheduler.
  def in_other(scheduler = NeverBlockTest::OtherScheduler)
    value = nil
    on_thread do
      @thread = Thread.current
      @thread.report_on_exception = false
      Fiber.set_scheduler(scheduler.new)
      Fiber.schedule { value = yield }
    end
    value
  end

  # Returns when the other scheduler waits for events.
  def wait_for_other
    Thread.pass until @thread.status == "sleep"
  end

  def test_run_starts_a_thread_while_the_callers_fiber_parks
    log, gate = [], Thread::Queue.new
    value = in_other do
      Fiber.schedule do
        sleep 0 until gate.num_waiting == 1
        (log << :other) && gate << :go
      end
      NeverBlock.run do |scope|
        assert_kind_of NeverBlock::Scheduler, Fiber.scheduler
        scope.spawn { gate.pop && log << :task }
        :value
      end.tap { log << :after }
    end
    assert_equal [%i[other task after], :value], [log, value]
  end

  def test_further_errors_are_attached
    error = in_other do
      raised do
        NeverBlock.run do |scope|
          scope.spawn do
            sleep
          ensure
            raise "second"
          end
          NB.pass
          raise IOError, "first"
        end
      end
    end
    assert_equal [IOError, "first", ["second"]], [error.class, error.message, error.errors.map(&:message)]
  end

  def test_options_reach_it
    seen = []
    in_other { NeverBlock.run(on_error: ->(error) { seen << error.message }) { |scope| scope.spawn { raise "reported" } } }
    assert_equal ["reported"], seen
    in_other { NeverBlock.run(exit: :cancel) { |scope| scope.spawn { sleep } } }
    assert_raises(ArgumentError) { in_other { NeverBlock.run(exit: :never) {} } }
  end

  def test_storage_comes_along
    assert_equal "caller", in_other { (Fiber[:user] = "caller") && NeverBlock.run { Fiber[:user] } }
  end

  def test_a_caller_that_is_unwound_ends_the_run
    log, begun = [], false
    in_other do
      fiber = Fiber.schedule do
        NeverBlock.run do
          begun = true
          sleep
        ensure
          log << :ensure
        end
      rescue IOError
        log << :unwound
      end
      sleep 0 until begun
      fiber.raise(IOError)
      sleep 0 until log.size == 2
    end
    assert_equal %i[ensure unwound], log
  end

  def test_several_at_once
    values = []
    in_other { 3.times { |n| Fiber.schedule { values << NeverBlock.run { wait_for_other || n } } } }
    assert_equal [0, 1, 2], values.sort
  end

  # With a scheduler that lets other threads run while it wakes a fiber, and that holds the only references to its
  # waiting fibers.
  def test_many_in_turn_with_one_that_wakes_slowly
    slow = Class.new(NeverBlockTest::OtherScheduler) { define_method(:unblock) { |*arguments| super(*arguments).tap { 50.times { Thread.pass } } } }
    values = []
    30.times { in_other(slow) { 3.times { |n| Fiber.schedule { values << NeverBlock.run { wait_for_other || n } } } } }
    assert_equal({0 => 30, 1 => 30, 2 => 30}, values.tally)
  end

  def test_the_functions_in_another_scheduler
    in_other do
      assert_equal [1, 4], NeverBlock.concurrently([1, 2]) { |n| sleep(0) && n * n }
      assert_equal :near, NeverBlock.race(-> { sleep }, -> { :near })
      assert_equal :returned, NeverBlock.spawn {}.state
      assert_equal 1, NB::FiberPool.new.spawn { 1 }.value
      assert_equal 1, NB.shield { 1 }
      assert_equal 1, NB.offload { 1 }
      assert_equal 1, NB::Semaphore.new(1).acquire { 1 }
      assert_nil NB.pass
      assert_nil NeverBlock::Task.current
      assert_empty NeverBlock.tasks
      refute_kind_of NeverBlock::Scheduler, Fiber.scheduler
    end
  end

  def test_our_own_scheduler_set_by_hand
    log, gate = [], Thread::Queue.new
    on_thread do
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      Fiber.schedule do
        NeverBlock.run do |scope|
          scope.spawn { gate.pop && log << :task }
          assert_same Fiber.scheduler, Fiber.current_scheduler
          gate << :go
        end
        log << :after
        NB.spawn { log << :spawned }
      end
      log << :root
      log << NeverBlock.run { :thread } # the root fiber can't park: a thread of its own
    end
    assert_equal [:after, :root, :spawned, :task, :thread], log.sort
    assert_operator log.index(:task), :<, log.index(:after)
  end

  def test_a_failure_under_a_scheduler_set_by_hand_is_raised_when_it_closes
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      Fiber.schedule { raise "scheduled" }
      Fiber.set_scheduler(nil)
    end
    assert_equal "scheduled", raised { thread.value }&.message
  end
end
