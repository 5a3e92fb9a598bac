# frozen_string_literal: true

require "test_helper"
require "neverblock"

class MonotonicClockTest < Minitest::Test
  include NeverBlock::MonotonicClock

  def test_now_is_in_seconds_and_only_grows
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    times = Array.new(3) { now }
    assert_equal times.sort, times
    assert_operator times.first, :>=, before
    assert_operator times.last, :<, before + 60
  end

  def test_it_is_private
    refute_respond_to Class.new { include NeverBlock::MonotonicClock }.new, :now
  end
end
