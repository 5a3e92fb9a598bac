# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# A wait that another fiber or thread ends, by which something is handed over.
class WakeUpTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_the_fiber_runs_before_those_that_are_due
    in_run do |scope|
      order = []
      wake_up = nil
      waiting = scope.spawn { (wake_up = NeverBlock::WakeUp.new).wait(10) && order << :handed_over }
      parked(waiting)
      due = scope.spawn { order << :due }
      wake_up.call
      [waiting, due].each(&:join)
      assert_equal %i[handed_over due], order
    end
  end

  def test_a_call_before_the_wait_counts_once
    in_run do
      wake_up = NeverBlock::WakeUp.new
      2.times { wake_up.call }
      assert_equal [true, false], [wake_up.wait(10), wake_up.wait(0.01)]
    end
  end

  def test_by_a_thread
    in_run do
      wake_up = NeverBlock::WakeUp.new
      thread = Thread.new { wake_up.call }
      assert wake_up.wait(10)
      thread.join
    end
  end

  def test_of_a_thread_without_a_loop
    wake_up = NeverBlock::WakeUp.new
    refute wake_up.wait(0.01)
    thread = Thread.new { wake_up.call }
    assert wake_up.wait(10)
    thread.join
  end

  # Regression: timers and the kernel's events waited for ever.
  def test_two_that_hand_over_to_each_other_for_ever_leave_turns_to_others
    in_run do |scope|
      done = starved = false
      turns = 0
      wake_ups = Array.new(2)
      pair = Array.new(2) do |number|
        scope.spawn do
          wake_up = wake_ups[number] = NeverBlock::WakeUp.new
          NB.pass until wake_ups.all?
          until done
            turns += 1
            wake_ups[1 - number].call
            wake_up.wait(1)
          end
        end
      end
      reader, writer = IO.pipe
      thread = Thread.new do
        Thread.pass until turns > 100
        clock.advance(1)
        writer.write("x")
      end
      ended = Thread::Queue.new
      scope.spawn do
        sleep 1
        reader.readpartial(1)
        NB.pass
        ended << (done = true)
      end
      watchman = Thread.new { ended.pop(timeout: NeverBlockTest::LIMIT) || (starved = done = true) } # runs in any case
      [*pair, thread, watchman].each(&:join)
      refute starved, "others have not run"
    end
  end

  def test_an_interrupted_wait
    in_run do |scope|
      wake_up = nil
      task = parked(scope.spawn { (wake_up = NeverBlock::WakeUp.new).wait })
      task.cancel
      assert_predicate task.join, :cancelled?
      wake_up.call # of a fiber that has ended
    end
  end
end
