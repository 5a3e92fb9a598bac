# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class MoveOnAfterTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_the_blocks_value
    in_run do
      limit = nil
      assert_equal(:value, NeverBlock.move_on_after(10) { |given| (limit = given) && sleep(1) && :value })
      refute_predicate limit, :expired?
      assert_nil(NeverBlock.move_on_after(10) {})
    end
  end

  def test_the_limit_passes
    in_run do
      limit, log = nil, []
      value = NeverBlock.move_on_after(5) do |given|
        limit = given
        sleep
      ensure
        log << given.expired?
        sleep 1
        log << :ensure
      end
      assert_nil value
      assert_in_delta 6, clock.elapsed
      assert_predicate limit, :expired?
      assert_equal [false, :ensure], log, "it has expired when it is unwound"
      assert_equal "#<NeverBlock::CancelScope expired>", limit.inspect
    end
  end

  def test_whatever_is_rescued_inside
    in_run do
      reached = false
      NeverBlock.move_on_after(2) do
        begin
          sleep
        rescue Exception # standard:disable Lint/RescueException
          nil
        end
        sleep
        reached = true
      end
      refute reached
    end
  end

  def test_a_block_that_computes
    clock.stop # code that computes takes no virtual time
    in_run { assert_nil(NeverBlock.move_on_after(0.01) { loop {} }) }
  end

  def test_zero_runs_until_the_first_wait
    in_run do
      log = []
      assert_nil(NeverBlock.move_on_after(0) { (log << :begun) && sleep(10) && (log << :ended) })
      assert_equal [:begun], log
      assert_equal(:value, NeverBlock.move_on_after(0) { :value })
    end
  end

  def test_no_limit
    [nil, Float::INFINITY].each do |none|
      seen = NeverBlock.move_on_after(none) { |limit| [limit.deadline, limit.left, limit.expired?, limit.inspect] }
      assert_equal [nil, nil, false, "#<NeverBlock::CancelScope no limit>"], seen
    end
  end

  def test_the_remaining_seconds
    in_run do
      NeverBlock.move_on_after(100) do |limit|
        sleep 5
        assert_in_delta 95, limit.left
        assert_in_delta now + 95, limit.deadline
        assert_equal "#<NeverBlock::CancelScope 95s left>", limit.inspect
      end
    end
  end

  # ---- which timeout ended the block ----
  def test_a_timeout_error_of_the_block_passes_through
    outside_and_inside do
      limit = nil
      [NeverBlock::TimeoutError, Timeout::Error, Class.new(NeverBlock::TimeoutError)].each do |kind|
        assert_instance_of kind, raised { NeverBlock.move_on_after(10) { |given| (limit = given) && raise(kind, "own") } }
        refute_predicate limit, :expired?
      end
      assert_match(/0.002 s/, raised { NeverBlock.move_on_after(10) { NeverBlock.timeout(0.002) { sleep } } }.message)
      assert_instance_of Timeout::Error, raised { NeverBlock.move_on_after(10) { Timeout.timeout(0.002) { sleep } } }
    end
  end

  def test_an_outer_timeout_passes_through
    outside_and_inside do
      limit = nil
      error = raised { NeverBlock.timeout(0.005) { NeverBlock.move_on_after(10) { |given| (limit = given) && sleep } } }
      assert_instance_of NeverBlock::TimeoutError, error
      refute_predicate limit, :expired?
      assert_instance_of Timeout::Error, raised { Timeout.timeout(0.005) { NeverBlock.move_on_after(10) { sleep } } }
    end
  end

  def test_nested
    outside_and_inside do
      outer = inner = nil
      value = NeverBlock.move_on_after(10) do |given|
        outer = given
        NeverBlock.move_on_after(0.002) { |nested| (inner = nested) && sleep }
        :went_on
      end
      assert_equal [:went_on, false, true], [value, outer.expired?, inner.expired?]
      value = NeverBlock.move_on_after(0.002) do |given|
        outer = given
        NeverBlock.move_on_after(10) { |nested| (inner = nested) && sleep }
        :never
      end
      assert_equal [nil, true, false], [value, outer.expired?, inner.expired?]
    end
  end

  def test_both_at_once
    in_run do
      20.times do
        outer = nil
        assert_nil(NeverBlock.move_on_after(1) { |given| (outer = given) && NeverBlock.move_on_after(1) { sleep } && :never })
        assert_predicate outer, :expired?
      end
    end
  end

  def test_an_error_in_the_ensure_of_an_unwound_block
    in_run do
      error = raised do
        NeverBlock.move_on_after(2) do
          sleep
        ensure
          raise IOError, "ensure"
        end
      end
      assert_kind_of IOError, error
    end
  end

  def test_a_cancellation_passes_through
    in_run do |scope|
      task = parked(scope.spawn { NeverBlock.move_on_after(10) { sleep } || flunk("it went on") })
      task.cancel
      task.join
      assert_predicate task, :cancelled?
    end
  end

  def test_a_nested_run_is_unwound
    in_run do
      ended = false
      NeverBlock.move_on_after(5) do
        NeverBlock.run do |scope|
          scope.spawn do
            sleep
          ensure
            ended = true
          end
        end
      end
      assert ended
    end
  end

  def test_outside_a_loop
    limit = nil
    assert_nil(NeverBlock.move_on_after(0.01) { |given| (limit = given) && sleep })
    assert_predicate limit, :expired?
    assert_equal(:value, NeverBlock.move_on_after(10) { :value })
  end

  def test_nothing_is_left
    on_thread do
      NeverBlock.run { 5.times { |number| NeverBlock.move_on_after(number.odd? ? 1 : 60) { sleep(2) } } }
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  def test_bad_input
    assert_raises(ArgumentError) { NeverBlock.move_on_after(1) }
    [-1, "1"].each { |bad| assert_match(/move_on_after: /, assert_raises(ArgumentError) { NeverBlock.move_on_after(bad) {} }.message) }
  end

  private

  def outside_and_inside(&block)
    block.call
    in_run(&block)
  end
end
