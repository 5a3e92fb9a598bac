# frozen_string_literal: true

require "test_helper"
require "support/runs"

class ScopeTest < Minitest::Test
  include NeverBlockTest::Runs

  # ---- spawn ----
  def test_spawn_returns_a_task_and_passes_arguments
    in_run do |scope|
      task = scope.spawn(1, [2, 3], name: "sum") { |one, (two, three)| one + two + three }
      assert_kind_of NeverBlock::Task, task
      assert_equal "sum", task.name
      assert_equal 6, task.value
    end
  end

  def test_a_spawned_task_runs_when_the_caller_waits
    in_run do |scope|
      log = []
      scope.spawn { log << :task }
      log << :caller
      NB.pass
      assert_equal [:caller, :task], log
    end
  end

  def test_spawn_takes_lambdas_and_methods
    in_run do |scope|
      assert_equal 2, scope.spawn(1, &->(number) { number + 1 }).value
      assert_equal "7", scope.spawn(7, &method(:String)).value
      assert_kind_of ArgumentError, raised { NeverBlock.run { scope.spawn(1, 2, &->(one) { one }).value } }
    end
  end

  def test_spawn_needs_a_block
    in_run do |scope|
      assert_raises(ArgumentError) { scope.spawn }
      assert_raises(ArgumentError) { scope.spawn(1, bad: 2) {} }
    end
  end

  def test_spawn_in_a_scope_that_has_ended
    scope = in_run { |open| open }
    assert_predicate scope, :closed?
    error = assert_raises(NeverBlock::ClosedError) { scope.spawn {} }
    assert_match(/can't spawn in #<NeverBlock::Scope .*>: its run has ended. Spawn in a scope that is still open/, error.message)
    assert_kind_of NeverBlock::Error, error
  end

  def test_spawn_in_the_scope_of_another_run_of_the_same_thread
    on_thread do
      old = NeverBlock.run { |scope| scope }
      NeverBlock.run { assert_raises(NeverBlock::ClosedError) { old.spawn {} } }
    end
  end

  # ---- tasks ----
  def test_tasks_lists_the_unfinished_ones
    in_run do |scope|
      assert_empty scope.tasks
      short, long = scope.spawn {}, scope.spawn { sleep }
      assert_equal [short, long], scope.tasks
      short.join
      assert_equal [long], scope.tasks
      NeverBlock.run { |inner| assert_empty inner.tasks }
      assert_match(/1 tasks/, scope.inspect)
      long.cancel
    end
  end

  # ---- cancel ----
  def test_cancel_ends_the_tasks_but_not_the_block
    [false, true].each do |nested|
      log = []
      body = lambda do |scope|
        scope.spawn do
          sleep
        ensure
          log << :ensure
        end
        scope.spawn { log << :never } if NB.pass || true
        assert_same scope, scope.cancel
        sleep 0.001
        :value
      end
      assert_equal :value, in_run { |scope| nested ? NeverBlock.run(&body) : body.call(scope) }
      assert_equal [:ensure], log
    end
  end

  def test_later_spawns_of_a_cancelled_scope_never_start
    in_run do |scope|
      scope.cancel
      task = scope.spawn { flunk "it ran" }
      refute_predicate task, :alive?
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
  end

  def test_cancel_from_one_of_its_tasks
    log = []
    in_run do |scope|
      scope.spawn { scope.cancel && log << :goes_on && sleep && log << :never }
      scope.spawn { sleep && log << :never }
    end
    assert_equal [:goes_on], log
  end

  def test_cancelling_an_outer_scope_reaches_inner_ones
    log = []
    in_run do |outer|
      outer.spawn do
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            log << :inner
          end
          sleep
        ensure
          log << :block
        end
      ensure
        log << :outer
      end
      sleep 0.005
      outer.cancel
    end
    assert_equal [:block, :inner, :outer], log
  end

  # ---- failures ----
  def test_an_exception_in_the_block_cancels_the_rest_and_is_raised_after_their_ensures
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn do
          sleep
        ensure
          sleep 0.02
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
        scope.spawn { sleep(0.005) && raise(IOError, "task") }
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
        NeverBlock.timeout(0.1) do
          parked(NeverBlock.spawn { sleep(0.001) && raise(IOError, "no") })
          sleep
        ensure
          log << :ensure
          sleep 0.12
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
    assert_match(/scope_test.rb:#{line}/, error.backtrace.first)
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
      outer.spawn { sleep(0.02) && log << :unharmed }
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
        outer.spawn { sleep(0.005) && raise("outer") }
        NeverBlock.run do |inner|
          inner.spawn do
            sleep
          ensure
            sleep 0.005
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
            sleep 0.005
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

  # ---- waiters of a failing task ----
  # The timer fires while the cancelled run waits for the ensure of its task.
  def test_a_timeout_around_a_cancelled_run_does_not_replace_the_cancellation
    in_run do |scope|
      went_on = false
      task = scope.spawn do
        NeverBlock.timeout(0.1) do
          NeverBlock.run do |inner|
            parked(inner.spawn do
              sleep
            ensure
              sleep 0.12
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

  def test_a_failure_with_a_waiter_goes_only_to_the_waiter
    in_run do |scope|
      failing = scope.spawn { sleep(0.005) && raise("mine") }
      waiters = Array.new(2) { |i| scope.spawn { raised { i.zero? ? failing.value : failing.join } } }
      assert_equal %w[mine mine], waiters.map { |waiter| waiter.value.message }
    end
  end

  def test_a_cancelled_waiter_does_not_count
    error = raised do
      in_run do |scope|
        waiter = nil
        failing = scope.spawn { sleep(0.005) && waiter.cancel && raise("without a waiter") }
        waiter = scope.spawn { failing.value }
      end
    end
    assert_equal "without a waiter", error&.message
  end

  def test_a_waiter_that_timed_out_does_not_count
    error = raised do
      in_run do |scope|
        failing = scope.spawn { sleep(0.03) && raise("without a waiter") }
        assert_nil failing.join(0.001)
        begin
          NeverBlock.timeout(0.001) { failing.value }
        rescue NeverBlock::TimeoutError
        end
        sleep
      end
    end
    assert_equal "without a waiter", error&.message
  end

  def test_a_thread_that_timed_out_does_not_count_as_a_waiter
    error = raised do
      in_run do |scope|
        started = Queue.new
        failing = scope.spawn { started.pop && sleep(0.01) && raise("without a waiter") }
        thread = Thread.new do
          Thread.current.report_on_exception = false
          failing.value
        end
        pass_until("the thread to wait") { thread.status == "sleep" }
        thread.kill.join
        started << true
        sleep
      end
    end
    assert_equal "without a waiter", error&.message
  end

  # ---- on_error ----
  def test_on_error_gets_failures_and_the_other_tasks_continue
    seen, log = [], []
    value = in_run(on_error: ->(error) { seen << error.message }) do |scope|
      scope.spawn { raise "one" }
      scope.spawn { raise "two" }
      scope.spawn { sleep(0.01) && log << :fine }
      NB.pass
      :value
    end
    assert_equal [%w[one two], [:fine], :value], [seen, log, value]
  end

  def test_on_error_gets_no_failure_with_a_waiter_and_none_of_the_block
    seen = []
    error = raised do
      in_run(on_error: ->(error) { seen << error }) do |scope|
        task = scope.spawn { raise "waited for" }
        raised { task.value }
        raise "block"
      end
    end
    assert_equal "block", error.message
    assert_empty seen
  end

  def test_on_error_report_prints_the_task_and_its_backtrace
    _, printed = capture_io { in_run(on_error: :report) { |scope| scope.spawn(name: "sick") { raise "no" } } }
    assert_match(/NeverBlock: #<NeverBlock::Task "sick" failed spawned at .*scope_test.rb:\d+>/, printed)
    assert_match(/scope_test.rb:\d+.*no \(RuntimeError\)/, printed)
  end

  def test_an_error_of_on_error_fails_the_run
    log = []
    error = raised do
      in_run(on_error: ->(_) { raise "handler" }) do |scope|
        scope.spawn do
          sleep
        ensure
          log << :cancelled
        end
        NB.pass
        scope.spawn { raise "task" }
        sleep
      end
    end
    assert_equal "handler", error.message
    assert_equal "task", error.cause&.message || "task"
    assert_equal [:cancelled], log
  end

  def test_on_error_may_wait
    log = []
    handler = lambda do |error|
      sleep 0.02
      log << error.message
    end
    in_run(on_error: handler) do |scope|
      scope.spawn { raise "slowly handled" }
      scope.spawn { sleep 0.001 } # ends while the handler waits
    end
    assert_equal ["slowly handled"], log
  end

  def test_an_inner_run_has_its_own_on_error
    outer, inner = [], []
    in_run(on_error: ->(error) { outer << error.message }) do |scope|
      NeverBlock.run(on_error: ->(error) { inner << error.message }) { |nested| nested.spawn { raise "inner" } }
      scope.spawn { raise "outer" }
    end
    assert_equal [["outer"], ["inner"]], [outer, inner]
  end

  def test_on_error_does_not_get_fatal_exceptions
    [SystemExit, Interrupt, SignalException.new("TERM"), NoMemoryError].each do |fatal|
      seen = []
      error = nil
      in_run(on_error: ->(raised) { seen << raised }) do
        NeverBlock.run(on_error: ->(raised) { seen << raised }) { |scope| scope.spawn { raise fatal } }
      rescue Exception => error # standard:disable Lint/RescueException -- the exception is what the test looks at
      end
      assert_kind_of fatal.is_a?(Class) ? fatal : fatal.class, error
      assert_empty seen
    end
  end
end
