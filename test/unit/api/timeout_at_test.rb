# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class TimeoutAtTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_in_time
    in_run { assert_equal(:value, NeverBlock.timeout_at(now + 10) { sleep(1) && :value }) }
  end

  def test_the_deadline_comes
    in_run do
      deadline = now + 60
      error = assert_raises(NeverBlock::TimeoutError) { NeverBlock.timeout_at(deadline) { sleep } }
      assert_in_delta deadline, now
      assert_equal "the deadline has passed", error.message
    end
  end

  def test_a_deadline_that_has_passed
    error = assert_raises(NeverBlock::TimeoutError) { NeverBlock.timeout_at(now - 2) { flunk "it ran" } }
    assert_equal "the deadline passed 2 s before the block began", error.message
    assert_raises(NeverBlock::TimeoutError) { NeverBlock.timeout_at(-Float::INFINITY) { flunk "it ran" } }
  end

  def test_several_steps_share_one
    in_run do
      early = now + 10
      assert_equal([1, 1], Array.new(2) { NeverBlock.timeout_at(early) { sleep(1) && 1 } })
      deadline, steps = now + 7, 0
      assert_raises(NeverBlock::TimeoutError) { loop { NeverBlock.timeout_at(deadline) { sleep 2 and steps += 1 } } }
      assert_in_delta deadline, now
      assert_equal 3, steps
    end
  end

  def test_no_limit
    assert_equal(1, NeverBlock.timeout_at(nil) { 1 })
    assert_equal(1, NeverBlock.timeout_at(Float::INFINITY) { 1 })
    assert_equal(1, NeverBlock.timeout_at(now + 1e9) { 1 })
  end

  def test_outside_a_loop
    assert_raises(NeverBlock::TimeoutError) { NeverBlock.timeout_at(now + 0.01) { sleep } }
    assert_equal(1, NeverBlock.timeout_at(now + 10) { 1 })
    own = Timeout::Error.new("own")
    assert_same own, raised { NeverBlock.timeout_at(now + 10) { raise own } }
  end

  def test_whole_numbers_and_rationals
    assert_equal(1, NeverBlock.timeout_at(now.ceil + 10) { 1 })
    assert_equal(1, NeverBlock.timeout_at(now.to_r + 10) { 1 })
  end

  def test_bad_input
    assert_raises(ArgumentError) { NeverBlock.timeout_at(1) }
    [Time.now, Time.now.to_f + 5, Time.now.to_i - 5, "soon", 1i, Float::NAN].each do |bad|
      assert_match(/NeverBlock::Clock.now/, assert_raises(ArgumentError) { NeverBlock.timeout_at(bad) {} }.message)
    end
  end
end
