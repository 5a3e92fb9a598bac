# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class TransientTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_a_scope_ends_without_its_transient_tasks
    log = []
    value = in_run do |scope|
      scope.spawn(transient: true) { forever(log) }
      sleep 1
      log << :block
      :value
    end
    assert_equal [:value, %i[block ensure ended]], [value, log]
  end

  def test_neverblock_spawn_accepts_transient
    log = []
    in_run { parked(NeverBlock.spawn(transient: true) { forever(log) }) }
    assert_equal %i[ensure ended], log
  end

  def test_a_transient_task_continues_while_another_task_is_left
    log = []
    in_run do |scope|
      scope.spawn(transient: true) { forever(log) }
      scope.spawn { 3.times { sleep(1) && log << :work } }
    end
    assert_equal %i[work work work ensure ended], log
  end

  def test_a_scope_with_transient_tasks_alone_ends_at_once
    in_run do |scope|
      tasks = Array.new(3) { scope.spawn(transient: true) { flunk "no task of a scope that has ended starts" } }
      scope.spawn(transient: true) { sleep }
      NeverBlock.run { |inner| tasks.concat(Array.new(2) { inner.spawn(transient: true) { sleep } }) }
      assert_equal [:cancelled] * 2, tasks.last(2).map(&:state)
      tasks.each(&:cancel)
    end
  end

  def test_the_reason_of_its_end
    error = nil
    in_run do |scope|
      parked(scope.spawn(transient: true) { raise(error = raised { sleep }) })
    end
    assert_equal "the task was cancelled: only transient tasks are left in its scope", error.message
  end

  def test_the_reason_of_a_scope_that_is_cancelled
    reasons = []
    watch = proc { reasons << raised { sleep }.reason }
    in_run do |scope|
      NeverBlock.run do |inner|
        parked(inner.spawn(transient: true, &watch))
        inner.cancel("shutting down")
      end
      holder = scope.spawn { NeverBlock.run { |inner| parked(inner.spawn(transient: true, &watch)) && sleep } }
      pass_until("the holder") { holder.waits_for&.include?("sleep") }
      holder.cancel("closing")
      holder.join
    end
    raised { in_run { |scope| parked(scope.spawn(transient: true, &watch)) && raise("no") } }
    assert_equal ["shutting down", "closing", "no"], reasons.map { |reason| reason.is_a?(Exception) ? reason.message : reason }
  end

  def test_its_failure_counts_as_any_tasks
    error = raised do
      in_run do |scope|
        scope.spawn(transient: true) { raise IOError, "no" }
        sleep
      end
    end
    assert_kind_of IOError, error
    reported = []
    in_run(on_error: ->(failure) { reported << failure.message }) do |scope|
      scope.spawn(transient: true) { raise "no" }
      sleep 1
    end
    assert_equal ["no"], reported
  end

  def test_a_failure_in_its_ensure_is_raised
    error = raised do
      in_run do |scope|
        parked(scope.spawn(transient: true) do
          sleep
        ensure
          raise "ensure"
        end)
      end
    end
    assert_equal "ensure", error.message
  end

  def test_a_waiter_of_its_value_keeps_the_scope_open
    values = []
    in_run do |scope|
      transient = scope.spawn(transient: true) { sleep(1) && :value }
      scope.spawn { values << transient.value }
    end
    assert_equal [:value], values
  end

  def test_a_task_spawned_by_a_transient_one_keeps_the_scope_open
    log = []
    in_run do |scope|
      parked(scope.spawn(transient: true) do
        NeverBlock.spawn { sleep(1) && log << :child }
        forever(log)
      end)
    end
    assert_equal %i[child ensure ended], log
  end

  def test_an_ensure_may_spawn_and_is_waited_for
    log = []
    in_run do |scope|
      parked(scope.spawn(transient: true) do
        sleep
      ensure
        NeverBlock.spawn(transient: true) { log << :never }
        NeverBlock.spawn { sleep(1) && log << :last_words }
      end)
    end
    assert_equal [:last_words], log
  end

  def test_a_shielded_one_ends_its_shield_first
    log = []
    in_run do |scope|
      parked(scope.spawn(transient: true) do
        NeverBlock.shield { sleep(1) && log << :committed }
        sleep
      end)
    end
    assert_equal [:committed], log
  end

  def test_each_scope_ends_its_own
    log = []
    in_run do |scope|
      outer = parked(scope.spawn(transient: true) { forever(log) })
      NeverBlock.run { |inner| parked(inner.spawn(transient: true) { forever(log) }) }
      log << :inner_over
      assert_predicate outer, :alive?
    end
    assert_equal %i[ensure ended inner_over ensure ended], log
  end

  def test_spawned_by_another_thread
    log = []
    in_run do |scope|
      gate = Thread::Queue.new
      thread = Thread.new do
        scope.spawn(transient: true) { (gate << true) && forever(log) }
      end
      gate.pop
      thread.join
    end
    assert_equal %i[ensure ended], log
  end

  def test_in_a_standalone_scheduler
    log = []
    standalone { Fiber.schedule { parked(NeverBlock.spawn(transient: true) { forever(log) }) } }
    assert_equal %i[ensure ended], log
  end

  def test_outside_a_loop_it_is_refused
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock.spawn(transient: true) { flunk "it ran" } }
    assert_match(/inside NeverBlock\.run/, error.message)
  end

  def test_thousands_that_end_with_their_scope
    ended = 0
    in_run do |scope|
      tasks = Array.new(2_000) do
        scope.spawn(transient: true) do
          sleep
        ensure
          ended += 1
        end
      end
      parked(tasks.last)
    end
    assert_equal 2_000, ended
  end

  private

  def forever(log)
    sleep
  ensure
    log << :ensure
    sleep 1
    log << :ended
  end
end
