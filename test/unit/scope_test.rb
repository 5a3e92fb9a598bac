# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class ScopeTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

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
        sleep 1
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
      sleep 1
      outer.cancel
    end
    assert_equal [:block, :inner, :outer], log
  end
end
