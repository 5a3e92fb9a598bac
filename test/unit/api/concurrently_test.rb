# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class ConcurrentlyTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_results_in_the_items_order
    assert_equal [30, 20, 10], in_run { NeverBlock.concurrently([3, 2, 1]) { |n| sleep(n) && n * 10 } }
    assert_in_delta 3, clock.elapsed
  end

  def test_outside_a_loop_it_starts_one
    gate = Thread::Queue.new
    values = on_thread do
      NeverBlock.concurrently(0..2) do |n|
        (n == 2) ? gate.close : gate.pop # the first two wait for the third
        n
      end
    end
    assert_equal [0, 1, 2], values
    assert_nil Fiber.scheduler
  end

  def test_inside_a_loop_its_tasks_are_the_callers
    in_run do |scope|
      other = scope.spawn { sleep }
      assert_equal [1], NeverBlock.concurrently([1]) { |n| n }
      assert_predicate other, :alive?
      other.cancel
    end
  end

  def test_empty
    assert_equal [], NeverBlock.concurrently([]) { flunk "it ran" }
    assert_equal [], NeverBlock.concurrently(Enumerator.new {}) { flunk "it ran" }
  end

  def test_results_may_be_nil_or_false
    assert_equal [nil, false, nil], NeverBlock.concurrently([nil, false, nil]) { |item| item }
    assert_equal [nil], NeverBlock.concurrently([1]) { next }
  end

  def test_at_most_limit_at_a_time
    assert_equal [7, 0], most_at_once(1..50, expected: 7, limit: 7)
  end

  def test_the_limit_is_fifty_unless_given
    assert_equal [50, 0], most_at_once(1..120, expected: 50)
  end

  # @return [Array(Integer, Integer)] the maximum number of concurrent runs, and the number at the end
  def most_at_once(items, expected:, **options)
    running, most, gate = 0, 0, Thread::Queue.new
    in_run do |scope|
      scope.spawn do
        NeverBlock.concurrently(items, **options) do
          most = [most, running += 1].max
          gate.pop
          sleep 1
          running -= 1
        end
      end
      pass_until("#{expected} to run") { gate.num_waiting >= expected }
      5.times { NB.pass } # a further place would be taken now
      gate.close
    end
    [most, running]
  end

  def test_limit_one_is_one_after_another
    log = []
    NeverBlock.concurrently(1..3, limit: 1) { |n| (log << n) && sleep(1) && log << n }
    assert_equal [1, 1, 2, 2, 3, 3], log
    assert_in_delta 3, clock.elapsed
  end

  def test_reads_the_enum_as_places_become_free
    read = 0
    items = Enumerator.new { |yielder| loop { yielder << (read += 1) } }
    error = raised do
      in_run do
        NeverBlock.concurrently(items, limit: 3) do |n|
          assert_operator read, :<=, n + 3
          raise "enough" if n == 20
          sleep 1
        end
      end
    end
    assert_equal "enough", error.message
    assert_operator read, :<, 30
  end

  def test_an_enum_that_waits_itself
    items = Enumerator.new { |yielder| 3.times { |n| sleep(1) && yielder << n } }
    assert_equal [0, 2, 4], in_run { NeverBlock.concurrently(items) { |n| n * 2 } }
    assert_equal [0, 2, 4], in_run { NeverBlock.concurrently(items.lazy.map { |n| n * 2 }) { |n| n } }
  end

  def test_an_enum_that_raises
    items = Enumerator.new { |yielder| (yielder << 1) && raise(IOError, "enum") }
    assert_equal "enum", raised { in_run { NeverBlock.concurrently(items) { sleep } } }.message
  end

  def test_any_object_with_each
    list = Class.new { def each = yield(1) && yield(2) }.new
    assert_equal [1, 2], NeverBlock.concurrently(list) { |n| n }
    assert_equal [[:a, 1]], NeverBlock.concurrently({a: 1}) { |key, value| [key, value] }
    assert_equal [[:a, 1]], NeverBlock.concurrently({a: 1}) { |pair| pair }
    assert_equal [[:a, 0]], NeverBlock.concurrently([:a].each_with_index) { |item, index| [item, index] }
    assert_equal [[1, 2]], NeverBlock.concurrently([[1, 2]]) { |pair| pair }
    assert_equal [3], NeverBlock.concurrently([[1, 2]]) { |one, two| one + two }
  end

  def test_bad_input
    assert_match(/needs a block/, assert_raises(ArgumentError) { NeverBlock.concurrently([]) }.message)
    assert_match(/the enum must respond to each, got 3/, assert_raises(ArgumentError) { NeverBlock.concurrently(3) {} }.message)
    [0, -1, 1.5, "2", nil].each do |limit|
      error = assert_raises(ArgumentError) { NeverBlock.concurrently([], limit:) {} }
      assert_equal "limit: #{limit.inspect} is not a whole number, 1 or more", error.message
    end
  end

  def test_the_first_error_cancels_the_rest_and_is_raised_with_the_others
    log = []
    error = raised do
      in_run do
        NeverBlock.concurrently(1..4) do |n|
          sleep((n == 3) ? 1 : nil)
          raise "first"
        ensure
          log << n
          raise "other" if n == 1
        end
      end
    end
    assert_equal ["first", ["other"]], [error.message, error.errors.map(&:message)]
    assert_equal [1, 2, 3, 4], log.sort
  end

  def test_an_error_before_all_are_started
    error = raised { NeverBlock.concurrently(1..1_000, limit: 2) { |n| raise "item #{n}" } }
    assert_equal "item 1", error.message
  end

  def test_an_error_inside_a_loop_does_not_cancel_other_tasks
    in_run do |scope|
      other = scope.spawn { sleep 1 and :unharmed }
      assert_equal "no", raised { NeverBlock.concurrently([1]) { raise "no" } }.message
      assert_equal :unharmed, other.value
    end
  end

  def test_a_cancelled_item_raises_instead_of_leaving_a_gap
    in_run do
      error = raised { NeverBlock.concurrently(1..3) { |n| NeverBlock::Task.current.cancel && sleep if n == 2 } }
      assert_kind_of NeverBlock::Cancelled, error
    end
  end

  def test_nested
    squares = in_run { NeverBlock.concurrently(1..3) { |a| NeverBlock.concurrently(1..3) { |b| sleep(1) && a * b } } }
    assert_equal [[1, 2, 3], [2, 4, 6], [3, 6, 9]], squares
    assert_in_delta 1, clock.elapsed
  end

  def test_ten_thousand
    on_thread do
      assert_equal (0...10_000).to_a, NeverBlock.concurrently(0...10_000, limit: 1_000) { |n| sleep(0) && n || n }
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end
end
