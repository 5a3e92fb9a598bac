# frozen_string_literal: true

require "test_helper"
require "neverblock"

class MonotonicClockTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlock::MonotonicClock

  def test_now_is_in_seconds_and_only_grows
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    times = Array.new(3) { now }
    assert_equal times.sort, times
    assert_operator times.first, :>=, before
    assert_operator times.last, :<, before + 60
  end

  # Timecop's mock_process_clock replaces it, and time may stand still then.
  def test_limits_pass_while_process_clock_gettime_stands_still
    assert_equal "[nil, :late, :late, :late]\n", assert_ruby(<<~RUBY)
      require "neverblock"
      Process.singleton_class.prepend(Module.new { def clock_gettime(*) = 5.0 })
      late = ->(&block) do
        block.call
      rescue NeverBlock::TimeoutError
        :late
      end
      p(NeverBlock.run do
        [NB.select(Queue.new, timeout: 0.01), late.call { NB.timeout(0.01) { sleep } },
          late.call { NB.timeout_at(NeverBlock::Clock.now + 0.01) { sleep } }, late.call { NB.timeout(0.01) { loop {} } }]
      end)
    RUBY
  end

  def test_it_is_private
    refute_respond_to Class.new { include NeverBlock::MonotonicClock }.new, :now
  end
end
