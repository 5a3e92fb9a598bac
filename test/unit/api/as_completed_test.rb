# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class AsCompletedTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_callables_in_the_order_of_their_completion
    in_run do
      seen = []
      gates = Array.new(2) { Thread::Queue.new } # each opens the next one's
      items = [-> { gates[1].pop && :slow }, -> { sleep(1) && gates[0].push(1) && :quick }, -> { gates[0].pop && gates[1].push(1) && :middle }]
      assert_equal 3, NeverBlock.as_completed(items) { |value, source| seen << [value, items.index(source)] }
      assert_equal [[:quick, 1], [:middle, 2], [:slow, 0]], seen
    end
  end

  def test_tasks_in_the_order_of_their_completion
    in_run do |scope|
      gates = Array.new(3) { Thread::Queue.new }
      tasks = gates.map { |gate| scope.spawn { gate.pop } }
      seen = []
      scope.spawn { [2, 0, 1].each { |at| (gates[at] << at) && sleep(1) } }
      assert_equal 3, NeverBlock.as_completed(tasks) { |value, task| seen << [value, tasks.index(task)] }
      assert_equal [[2, 2], [0, 0], [1, 1]], seen
    end
  end

  def test_promises_and_threads
    in_run do |scope|
      promise, thread = NeverBlock::Promise.new, Thread.new { :thread }
      scope.spawn { thread.join && promise.fulfill(:promise) }
      seen = []
      assert_equal 2, NeverBlock.as_completed([promise, thread], limit: 1) { |value, source| seen << [value, source] }
      assert_equal [[:thread, thread], [:promise, promise]], seen
    end
  end

  def test_tasks_take_no_place
    in_run do |scope|
      gate = Thread::Queue.new
      waiting = Array.new(5) { scope.spawn { gate.pop } }
      seen = []
      NeverBlock.as_completed([*waiting, -> { :callable }], limit: 1) do |value|
        gate.close if seen.empty?
        seen << value
      end
      assert_equal [:callable, *[nil] * 5], seen
    end
  end

  def test_at_most_limit_at_a_time_and_values_do_not_pile_up
    in_run do
      begun = 0
      items = Array.new(10) { |number| -> { (begun += 1) && number } }
      seen = 0
      NeverBlock.as_completed(items, limit: 3) do
        5.times { NB.pass }
        assert_operator begun, :<=, (seen += 1) + 2
      end
      assert_equal [10, 10], [begun, seen]
    end
  end

  def test_the_enum_is_read_as_places_become_free
    in_run do
      read = 0
      endless = Enumerator.new { |yielder| loop { (read += 1) && yielder << -> { read } } }
      seen = 0
      NeverBlock.as_completed(endless, limit: 2) { break if (seen += 1) == 5 }
      assert_operator read, :<=, 8
      assert_equal [NeverBlock::Task.current], NeverBlock.tasks
    end
  end

  def test_a_slow_enum
    in_run do
      slow = Enumerator.new { |yielder| 3.times { |number| sleep(1) && yielder << -> { number } } }
      seen = []
      NeverBlock.as_completed(slow) { |value| seen << value }
      assert_equal [0, 1, 2], seen
    end
  end

  def test_nil_and_arrays_are_values
    in_run do
      seen = []
      NeverBlock.as_completed([-> {}, -> { [1, 2] }]) { |value| seen << value }
      assert_equal [nil, [1, 2]], seen
      assert_equal 0, NeverBlock.as_completed([]) { flunk "there is none" }
    end
  end

  def test_a_failure_cancels_the_rest
    log = []
    slow = lambda do
      sleep
    ensure
      log << :cancelled
    end
    error = raised { in_run { NeverBlock.as_completed([slow, -> { sleep(1) && raise(IOError, "no") }]) { flunk "no value" } } }
    assert_kind_of IOError, error
    assert_equal [:cancelled], log
  end

  def test_a_failing_tasks_error_is_raised_and_the_others_continue
    in_run do |scope|
      gate = Thread::Queue.new
      going_on = scope.spawn { gate.pop && :value }
      failing = scope.spawn { sleep(1) && raise("no") }
      assert_equal "no", raised { NeverBlock.as_completed([going_on, failing]) { flunk "no value" } }.message
      gate << 1
      assert_equal :value, going_on.value
    end
  end

  def test_a_failure_of_the_enum_or_the_block
    in_run do
      broken = Enumerator.new { |yielder| (yielder << -> { 1 }) && raise("enum") }
      assert_equal "enum", raised { NeverBlock.as_completed(broken) { sleep } }.message
      assert_equal "block", raised { NeverBlock.as_completed([-> { 1 }, -> { sleep }]) { raise "block" } }.message
      assert_equal [NeverBlock::Task.current], NeverBlock.tasks
    end
  end

  def test_a_cancelled_item
    in_run do |scope|
      own = -> { NeverBlock::Task.current.cancel && sleep }
      assert_kind_of NeverBlock::Cancelled, raised { NeverBlock.as_completed([own, -> { sleep }]) { flunk "no value" } }
      task = scope.spawn { sleep }.tap(&:cancel)
      assert_kind_of NeverBlock::Cancelled, raised { NeverBlock.as_completed([task]) { flunk "no value" } }
    end
  end

  def test_cancelled_from_outside
    in_run do |scope|
      begun = ended = 0
      item = lambda do
        begun += 1
        sleep
      ensure
        ended += 1
      end
      task = parked(scope.spawn { NeverBlock.as_completed([item] * 3, limit: 2) { flunk "no value" } })
      pass_until("the items") { begun == 2 }
      task.cancel
      task.join
      assert_equal 2, ended
    end
  end

  def test_outside_a_loop
    on_thread do
      seen = []
      NeverBlock.as_completed([-> { sleep(1) && 1 }, -> { 2 }]) { |value| seen << value }
      assert_equal [2, 1], seen
      assert_nil Fiber.scheduler
    end
  end

  def test_bad_input
    assert_match(/needs a block/, assert_raises(ArgumentError) { NeverBlock.as_completed([]) }.message)
    assert_match(/the enum must respond to each, got 1/, assert_raises(ArgumentError) { NeverBlock.as_completed(1) {} }.message)
    assert_match(/limit: 0 is not a whole number/, assert_raises(ArgumentError) { NeverBlock.as_completed([], limit: 0) {} }.message)
    assert_match(/an item must be a task, promise, thread or callable, got :x. Give -> /, raised { in_run { NeverBlock.as_completed([:x]) {} } }.message)
  end
end
