# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# What a failed task does not end: a failure that has a waiter, and one that `on_error` gets.
class ScopeOnErrorTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_a_failure_with_a_waiter_goes_only_to_the_waiter
    in_run do |scope|
      failing = scope.spawn { sleep(1) && raise("mine") }
      waiters = Array.new(2) { |i| scope.spawn { raised { i.zero? ? failing.value : failing.join } } }
      assert_equal %w[mine mine], waiters.map { |waiter| waiter.value.message }
    end
  end

  def test_a_cancelled_waiter_does_not_count
    error = raised do
      in_run do |scope|
        waiter = nil
        failing = scope.spawn { sleep(1) && waiter.cancel && raise("without a waiter") }
        waiter = scope.spawn { failing.value }
      end
    end
    assert_equal "without a waiter", error&.message
  end

  def test_a_waiter_that_timed_out_does_not_count
    error = raised do
      in_run do |scope|
        failing = scope.spawn { sleep(30) && raise("without a waiter") }
        assert_nil failing.join(1)
        begin
          NeverBlock.timeout(1) { failing.value }
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
        failing = scope.spawn { started.pop && sleep(1) && raise("without a waiter") }
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

  def test_on_error_gets_failures_and_the_other_tasks_continue
    seen, log = [], []
    value = in_run(on_error: ->(error) { seen << error.message }) do |scope|
      scope.spawn { raise "one" }
      scope.spawn { raise "two" }
      scope.spawn { sleep(1) && log << :fine }
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
    assert_match(/NeverBlock: #<NeverBlock::Task "sick" failed spawned at .*on_error_test.rb:\d+>/, printed)
    assert_match(/on_error_test.rb:\d+.*no \(RuntimeError\)/, printed)
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
      sleep 20
      log << error.message
    end
    in_run(on_error: handler) do |scope|
      scope.spawn { raise "slowly handled" }
      scope.spawn { sleep 1 } # ends while the handler waits
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
