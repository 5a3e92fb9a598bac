# frozen_string_literal: true

require "test_helper"
require "support/runs"

# A task is cancelled or interrupted while its fiber is being started. Ruby may let other threads and traps run at each
# switch of fibers; the hook here always does.
class StartCancelledTest < Minitest::Test
  include NeverBlockTest::Runs

  # Not a StandardError, like a signal's exception.
  class Interruption < Exception; end # standard:disable Lint/InheritException

  # More switches than a start has.
  SWITCHES = 6

  STARTS = {
    "spawn" => ->(block) { NB.spawn(&block).then { NB.pass } },
    "Fiber.schedule" => ->(block) { Fiber.schedule(&block) }
  }.freeze

  def test_an_interrupt_of_the_cancelling_thread_stays_in_that_thread
    in_run do |scope|
      task = scope.spawn { flunk "it runs" }
      canceller = Thread.new do
        trace = TracePoint.new(:call) do |point|
          next unless point.method_id == :task_finished
          trace.disable
          Thread.current.raise(Interruption)
        end
        raised { trace.enable(target_thread: Thread.current) { task.cancel } }
      end
      assert_kind_of Interruption, Fiber.blocking { canceller.value } # the loop is blocked, and does not start the task
      assert_predicate task, :cancelled?
      assert_empty scope.tasks
    end
  end

  def test_a_task_that_is_cancelled_meanwhile_never_runs
    STARTS.each do |name, start|
      ended = (1..SWITCHES).count do |place|
        task = nil
        log = []
        in_run do |scope|
          tasks = NB.tasks
          at_switch(place) { (task = (NB.tasks - tasks).first)&.cancel("no more") }
          start.call(-> { log << :ran && sleep })
          pass_until("the end of the task") { NB.tasks == tasks } if task
          scope.cancel
        end
        next unless task&.cancelled? && log.empty?
        assert_equal "no more", raised { task.value }.reason, name
      end
      assert_operator ended, :>=, 2, name # its fiber is resumed, yields, and is transferred to
    end
  end

  # The first switch is skipped, before the fiber's block begins: only a hook can raise there.
  def test_an_interrupt_meanwhile_leaves_nothing
    STARTS.each do |name, start|
      (2..SWITCHES).each do |place|
        scheduler = trace = nil
        error = raised do
          in_run(exit: :cancel) do
            scheduler = NeverBlock::Scheduler.current
            trace = at_switch(place) { raise Interruption }
            start.call(-> { sleep })
            NB.pass
          end
        end
        trace.enabled? ? assert_nil(error) : assert_instance_of(Interruption, error, "#{name}, switch #{place}")
        assert_equal [0, 0], scheduler.statistics.values_at(:tasks, :fibers), "#{name}, switch #{place}"
      end
    end
  end

  def test_an_interrupt_as_spawn_returns_leaves_nothing
    [true, false].each do |here|
      log = []
      scheduler = nil
      error = raised do
        in_run(exit: :cancel) do |scope|
          scheduler = NeverBlock::Scheduler.current
          spawning = lambda do
            at_return(:spawn) { Thread.current.raise(Interruption) }
            scope.spawn { log << :ran && sleep }
          end
          here ? spawning.call : Thread.new(&spawning).tap { |thread| thread.report_on_exception = false }.value
        end
      end
      assert_instance_of Interruption, error
      assert_equal [0, 0], scheduler.statistics.values_at(:tasks, :fibers), "on the loop's thread: #{here}"
    end
  end

  private

  # Runs the block when a C method of the scheduler next returns, on the calling thread.
  def at_return(name)
    trace = TracePoint.new(:c_return) do |point|
      next unless point.method_id == name && point.defined_class == NeverBlock::Scheduler
      trace.disable
      yield
    end
    trace.enable(target_thread: Thread.current)
  end

  # Runs the block at the n-th switch of this thread's fibers from now on.
  # @return [TracePoint] enabled until then
  def at_switch(place)
    trace = TracePoint.new(:fiber_switch) do
      next unless (place -= 1).zero?
      trace.disable
      yield
    end
    trace.tap { trace.enable(target_thread: Thread.current) }
  end
end
