# frozen_string_literal: true

# engines: every - each engine sleeps in its own way
require "test_helper"
require "support/runs"

# A loop that sleeps in the kernel, or is about to, and must be told. On the real clock: with a virtual one a loop looks
# again after a millisecond.
class SleepingLoopTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  # The loop sleeps, and must be told to ask again.
  def test_a_leaver_that_refuses_another_thread_is_asked_again
    asked = 0
    in_run do |scope|
      ticket = NeverBlock::Scheduler::Ticket.new(Fiber.scheduler)
      leaver = Object.new
      leaver.define_singleton_method(:leaving) { (asked += 1) == 2 && ticket.signal && false }
      task = parked(scope.spawn { ticket.wait(leaver) })
      loop_thread = Thread.current
      Thread.new { wait_until("the loop to sleep") { loop_thread.status == "sleep" } && task.cancel }
      task.join
    end
    assert_equal 2, asked
  end

  # The last check for interrupts before the loop sleeps lets other threads and signal handlers run. Regression: their
  # wake-ups waited for the next event.
  def test_a_wake_up_during_the_last_check_before_the_loop_sleeps
    queue = Thread::Queue.new
    waker = Module.new do
      define_method(:pending_interrupt?) do |*classes|
        queue << :woken if queue.num_waiting > 0
        super(*classes)
      end
    end
    in_run do |scope|
      event = false
      masked = scope.spawn { Thread.handle_interrupt(IOError => :never) { Thread::Queue.new.pop(timeout: 600) || event = true } }
      NB.pass
      Thread.current.singleton_class.prepend(waker)
      assert_equal [[:woken, false]] * 3, Array.new(3) { [queue.pop, event] }
    ensure
      waker.remove_method(:pending_interrupt?)
      masked.cancel
    end
  end
end
