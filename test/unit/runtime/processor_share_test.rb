# frozen_string_literal: true

require "test_helper"
require "neverblock/runtime/processor_share"
require "support/virtual_time"

# The share of the last seconds in which the process computed.
class ProcessorShareTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  def setup
    @computed = 0.0
    @share = NeverBlock::ProcessorShare.new(computed: -> { @computed })
  end

  def test_nothing_was_noted
    assert_nil @share.over(1)
    refute @share.saturated?(1)
    @share.note
    assert_nil @share.over(1), "no time has passed"
  end

  def test_the_share_of_the_given_seconds
    pass(1, 0.1)
    pass(1, 0.9)
    assert_in_delta 0.9, @share.over(1), 0.02
    assert_in_delta 0.5, @share.over(2), 0.02
    assert_equal [true, false], [@share.saturated?(1), @share.saturated?(2)]
  end

  def test_less_than_half_of_the_period_is_not_enough
    pass(1, 0.9)
    assert_nil @share.over(2.5)
    assert_in_delta 0.9, @share.over(1.9), 0.02
  end

  def test_the_last_part_of_a_long_period
    pass(20, 0.1)
    pass(15, 0.9)
    assert_in_delta 0.9, @share.over(3_600), 0.02
  end

  def test_a_process_that_sleeps_and_one_that_computes
    share = NeverBlock::ProcessorShare.new
    share.note
    began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    clock.advance(10)
    refute share.saturated?(10)
    1_000_000.times { |number| number * 2 }
    computed = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began
    assert_in_delta computed / 10, share.over(10), 0.001
  end

  private

  # Some seconds with this share of computation, and regular measurements.
  def pass(seconds, share)
    (seconds / 0.005).round.times do
      @share.note
      clock.advance(0.005)
      @computed += 0.005 * share
    end
  end
end
