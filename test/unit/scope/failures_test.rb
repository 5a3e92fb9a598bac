# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# A run whose block or task fails: the rest is cancelled, and the failure is raised.
class ScopeFailuresTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_an_exception_in_the_block_cancels_the_rest_and_is_raised_after_their_ensures
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn do
          sleep
        ensure
          sleep 1
          log << :ensure
        end
        NB.pass
        raise ArgumentError, "block"
      end
    end
    assert_kind_of ArgumentError, error
    assert_equal "block", error.message
    assert_equal [:ensure], log
    assert_empty error.errors
  end

  def test_an_exception_in_a_task_cancels_the_rest_and_is_raised
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn do
          sleep
        ensure
          log << :sibling
        end
        scope.spawn { sleep(1) && raise(IOError, "task") }
        sleep
      ensure
        log << :block
      end
    end
    assert_kind_of IOError, error
    assert_equal [:block, :sibling], log.sort
  end

  def test_a_failing_task_unwinds_the_block_past_every_rescue
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn { raise "task" }
        begin
          sleep
        rescue Exception => error # standard:disable Lint/RescueException -- what must not happen
          log << error
        end
        log << :went_on
      end
    end
    assert_equal "task", error.message
    assert_empty log
  end

  # It passes in the ensure that the failure has the block come to.
  def test_a_failing_task_unwinds_the_block_past_a_timeout_inside
    log = []
    error = raised do
      in_run do |scope|
        NeverBlock.timeout(10) do
          parked(NeverBlock.spawn { sleep(1) && raise(IOError, "no") })
          sleep
        ensure
          log << :ensure
          sleep 12
        end
      rescue NeverBlock::TimeoutError
        log << :never
      end
    end
    assert_kind_of IOError, error
    assert_equal [:ensure], log
  end

  def test_the_others_are_in_errors_in_their_order
    error = raised do
      in_run do |scope|
        3.times do |number|
          scope.spawn do
            sleep
          ensure
            raise "ensure #{number}"
          end
        end
        NB.pass
        scope.spawn { raise "first" }
        sleep
      ensure
        raise "block"
      end
    end
    assert_equal "first", error.message
    assert_equal ["block", "ensure 0", "ensure 1", "ensure 2"], error.errors.map(&:message).sort
    assert_kind_of NeverBlock::Failure, error
  end

  # Thread#raise, or Ctrl-C, in a task of a run that is failing already: a `rescue` around the run must not swallow it.
  def test_an_interrupt_takes_precedence_over_earlier_errors
    [Interrupt, SystemExit, Class.new(Exception)].each do |kind| # standard:disable Lint/InheritException
      log = []
      error = raised do
        in_run do
          NeverBlock.run do |inner|
            inner.spawn do
              sleep
            ensure
              raise kind, "interrupt"
            end
            NB.pass
            raise "first"
          end
        rescue => swallowed
          log << swallowed
        end
      end
      assert_instance_of kind, error
      assert_equal ["first"], error.errors.map(&:message)
      assert_empty log
    end
  end

  def test_fatal_exceptions_take_precedence
    error = raised do
      in_run do |scope|
        scope.spawn do
          sleep
        ensure
          exit 3
        end
        NB.pass
        raise NotImplementedError
      end
    end
    assert_equal [3, [NotImplementedError]], [error.status, error.errors.map(&:class)]
  end

  def test_errors_survive_outer_runs
    error = raised do
      in_run do |outer|
        outer.spawn do
          sleep
        ensure
          raise "outer"
        end
        NB.pass
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            raise "inner"
          end
          NB.pass
          raise "first"
        end
      end
    end
    assert_equal "first", error.message
    assert_equal %w[inner outer], error.errors.map(&:message)
  end

  def test_an_exception_that_several_tasks_raise_counts_once
    same = RuntimeError.new("same")
    error = raised do
      in_run do |scope|
        3.times { scope.spawn { raise same } }
      end
    end
    assert_same same, error
    assert_empty error.errors
  end

  def test_an_exception_with_errors_of_its_own_keeps_them
    kind = Class.new(StandardError) { def errors = [:its_own] }
    assert_equal [:its_own], raised { in_run { raise kind } }.errors
  end

  def test_a_frozen_exception_is_raised_as_it_is
    frozen = RuntimeError.new("frozen").freeze
    assert_same frozen, raised { in_run { |scope| scope.spawn { raise frozen } } }
  end

  def test_the_cause_is_kept
    error = raised do
      in_run do |scope|
        scope.spawn do
          raise "cause"
        rescue
          raise "effect"
        end
        sleep
      end
    end
    assert_equal %w[effect cause], [error.message, error.cause.message]
    plain = raised { in_run { |scope| scope.spawn { raise "plain" } && begin; sleep; ensure; NB.pass; end } }
    assert_nil plain.cause
  end

  def test_the_backtrace_is_the_tasks
    line = nil
    error = raised { in_run { |scope| scope.spawn { (line = __LINE__) && raise("here") } } }
    assert_match(/failures_test.rb:#{line}/, error.backtrace.first)
  end

  def test_exceptions_outside_of_standard_error_count_too
    assert_kind_of NotImplementedError, raised { in_run { |scope| scope.spawn { raise NotImplementedError } } }
    assert_kind_of NoMemoryError, raised { in_run { |scope| scope.spawn { raise NoMemoryError } } }
    assert_kind_of SystemStackError, raised { in_run { |scope| scope.spawn { deep } } }
    assert_kind_of UncaughtThrowError, raised { in_run { |scope| scope.spawn { throw :nowhere } } }
    assert_kind_of LocalJumpError, raised { in_run { |scope| scope.spawn { break } } }
  end

  def deep = deep

  def test_a_nested_runs_failure_is_the_callers
    log = []
    in_run do |outer|
      outer.spawn { sleep(1) && log << :unharmed }
      begin
        NeverBlock.run { |inner| inner.spawn { raise "inner" } }
      rescue => error
        log << error.message
      end
    end
    assert_equal ["inner", :unharmed], log
  end

  def test_a_failure_reaches_a_block_that_waits_in_a_nested_run
    log = []
    error = raised do
      in_run do |outer|
        outer.spawn { sleep(1) && raise("outer") }
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            sleep 1
            log << :inner
          end
          sleep
        end
      end
    end
    assert_equal "outer", error.message
    assert_equal [:inner], log
  end

  def test_a_failure_during_the_clean_up_after_another
    error = raised do
      in_run do |scope|
        scope.spawn do
          sleep
        ensure
          NeverBlock.run { |inner| inner.spawn { raise "second" } } # runs in an ensure, with tasks of its own
        end
        NB.pass
        raise "first"
      end
    end
    assert_equal ["first", "second"], [error, *error.errors].map(&:message)
  end

  def test_a_cancelled_run_does_not_hide_failures_of_its_tasks
    in_run do |scope|
      task = scope.spawn do
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            raise "lost?"
          end
          sleep
        end
      end
      parked(task).cancel
      assert_equal "lost?", raised { task.join }&.message
      assert_equal :failed, task.state
    end
  end

  def test_a_cancelled_run_closes_its_scope_and_restores_the_tasks_scope
    inner = nil
    in_run do |outer|
      task = outer.spawn do
        NeverBlock.run do |scope|
          inner = scope
          scope.spawn { sleep }
          sleep
        end
      ensure
        assert_same outer, NeverBlock::Task.current.inner_scope
      end
      parked(task).cancel
      raised { task.value }
      assert_predicate inner, :closed?
      assert_empty inner.tasks
    end
  end

  def test_cancelled_while_it_waits_for_its_tasks
    log = []
    in_run do |outer|
      task = outer.spawn do
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            sleep 1
            log << :ensure
          end
        end
        log << :never
      end
      parked(task).cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
    assert_equal [:ensure], log
  end

  # The timer fires while the cancelled run waits for the ensure of its task.
  def test_a_timeout_around_a_cancelled_run_does_not_replace_the_cancellation
    in_run do |scope|
      went_on = false
      task = scope.spawn do
        NeverBlock.timeout(10) do
          NeverBlock.run do |inner|
            parked(inner.spawn do
              sleep
            ensure
              sleep 12
            end)
            NeverBlock::Task.current.cancel("enough")
            sleep
          end
        end
      rescue NeverBlock::TimeoutError
        went_on = true
      end
      assert_equal "enough", raised { task.value }.reason
      refute went_on
      assert_predicate task, :cancelled?
    end
  end
end
