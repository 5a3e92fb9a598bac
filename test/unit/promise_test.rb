# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class PromiseTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def setup
    @promise = NeverBlock::Promise.new
  end

  def test_it_is_settled_once
    assert_equal true, @promise.fulfill(1)
    assert_equal false, @promise.fulfill(2)
    assert_equal false, @promise.reject("no")
    assert_equal [1, 1, nil], [@promise.value, @promise.value, @promise.error]
    assert_equal [true, true, false], [@promise.settled?, @promise.fulfilled?, @promise.rejected?]
  end

  def test_rejected
    error = IOError.new("no")
    assert_equal true, @promise.reject(error)
    assert_equal false, @promise.fulfill(1)
    2.times { assert_same error, raised { @promise.value } }
    assert_same error, @promise.error
    assert_same @promise, @promise.wait
    assert_equal [true, false, true], [@promise.settled?, @promise.fulfilled?, @promise.rejected?]
  end

  def test_accepted_and_refused_arguments_of_reject
    {"text" => [RuntimeError, "text"], KeyError => [KeyError, "KeyError"]}.each do |given, (kind, message)|
      promise = NeverBlock::Promise.new
      promise.reject(given)
      error = raised { promise.value }
      assert_equal [kind, message], [error.class, error.message]
    end
    [nil, 1, String].each { |bad| assert_match(/reject: /, assert_raises(ArgumentError) { @promise.reject(bad) }.message) }
    refute_predicate @promise, :settled?
  end

  def test_nil_and_false_are_values
    @promise.fulfill
    assert_nil @promise.value
    other = NeverBlock::Promise.new
    other.fulfill(false)
    assert_equal false, other.value
    assert_predicate other, :fulfilled?
  end

  def test_an_interrupt_while_it_is_settled
    interrupt = Class.new(Exception) # standard:disable Lint/InheritException -- like Interrupt, which would end the tests
    trace = TracePoint.new(:b_return) do |point|
      next unless point.path.end_with?("/promise.rb")
      trace.disable
      Thread.current.raise(interrupt)
    end
    assert_kind_of interrupt, raised { trace.enable(target_thread: Thread.current) { @promise.fulfill(1) } }
    assert @promise.settled? || @promise.fulfill(2), "it can't be settled any more"
  end

  def test_fibers_wait_for_it
    in_run do |scope|
      waiting = Array.new(100) { scope.spawn { @promise.value } }
      parked(waiting.last)
      assert_match(/100 waiting/, @promise.inspect)
      scope.spawn { @promise.fulfill(:value) }
      assert_equal [:value] * 100, waiting.map(&:value)
    end
  end

  def test_threads_wait_for_it
    waiting = Array.new(3) { Thread.new { @promise.value } }
    wait_until("the threads") { @promise.inspect.include?("3 waiting") }
    in_run { @promise.fulfill(:value) }
    assert_equal [:value] * 3, waiting.map(&:value)
  end

  def test_one_of_many_threads_settles_it
    winners = Array.new(10) { |number| Thread.new { number if @promise.fulfill(number) } }.map(&:value).compact
    assert_equal [@promise.value], winners
  end

  def test_a_trap_handler_settles_it
    assert_equal "7\n", assert_ruby(<<~RUBY)
      require "neverblock"
      promise = NeverBlock::Promise.new
      trap(:USR1) { promise.fulfill(7) }
      NeverBlock.run do |scope|
        scope.spawn { NB.pass || Process.kill(:USR1, Process.pid) }
        scope.spawn { sleep 5 }.then { |timer| puts promise.value or timer.cancel }
        scope.cancel
      end
    RUBY
  end

  def test_the_timeout
    in_run do
      assert_nil @promise.wait(timeout: 5)
      assert_in_delta 5, clock.elapsed
      error = assert_raises(NeverBlock::TimeoutError) { @promise.value(timeout: 3) }
      assert_match(/within 3 s/, error.message)
      assert_in_delta 8, clock.elapsed
      assert_nil @promise.wait(timeout: 0)
      @promise.fulfill(1)
      assert_same @promise, @promise.wait(timeout: 0)
      assert_equal 1, @promise.value(timeout: 0)
    end
    assert_match(/timeout: -1 is not a number of seconds/, assert_raises(ArgumentError) { @promise.wait(timeout: -1) }.message)
  end

  def test_a_waiter_that_is_cancelled_leaves_nothing_behind
    in_run do |scope|
      waiting = parked(scope.spawn { @promise.value })
      waiting.cancel
      waiting.join
      assert_match(/0 waiting/, @promise.inspect)
      @promise.fulfill(1)
      assert_equal 1, @promise.value
    end
  end

  def test_a_promise_that_can_not_be_settled_is_a_deadlock
    error = raised { assert_ruby("require 'neverblock'\nNeverBlock.run { NeverBlock::Promise.new.value }") }
    assert_match(/DeadlockError.*Promise::Gate/m, error.message)
  end

  def test_a_promise_can_not_be_copied
    assert_raises(NoMethodError) { @promise.dup }
    assert_raises(NoMethodError) { @promise.clone }
  end

  def test_inspect
    assert_equal "#<NeverBlock::Promise 0 waiting>", @promise.inspect
    @promise.reject(KeyError)
    assert_equal "#<NeverBlock::Promise rejected with KeyError>", @promise.inspect
    assert_equal "#<NeverBlock::Promise fulfilled>", NeverBlock::Promise.new.tap(&:fulfill).inspect
  end
end
