# frozen_string_literal: true

require "neverblock"
require "socket"
require "timeout"
require_relative "clock"
require_relative "limit"

module NeverBlockTest
  # Loops for tests of the engine and the scheduler's hooks, each with a time limit: a hang fails its test by name.
  #
  #   class SleepTest < Minitest::Test
  #     include NeverBlockTest::Loops
  #     def test_one = standalone { |scheduler| scheduler.kernel_sleep(0.01) }
  #   end
  module Loops
    include Clock

    # Seconds until a loop counts as hanging. A wait inside of it fails before, and tells more.
    LOOP_LIMIT = LIMIT + 10

    # Runs the block in a fiber of a scheduler without NeverBlock.run, on a thread of its own, until the thread's end.
    # @yieldparam scheduler [NeverBlock::Scheduler]
    # @return [Object] the block's value
    # @raise [Exception] what the block, or closing the scheduler, raised
    def standalone(limit: LOOP_LIMIT)
      value = nil
      on_thread(limit) do
        scheduler = NeverBlock::Scheduler.new
        Fiber.set_scheduler(scheduler)
        Fiber.schedule { value = yield scheduler }
      end
      value
    end

    # NeverBlock.run on a thread of its own. Failures of tasks are left to the test; a failure of the block is raised.
    # @return [Object] the block's value
    def in_loop(limit: LOOP_LIMIT, **options)
      failure = value = nil
      on_thread(limit) do
        NeverBlock.run(on_error: ->(_error) {}, **options) do |scope|
          value = yield scope
        rescue Exception => failure # standard:disable Lint/RescueException -- assertions are none
          scope.cancel
        end
      end
      failure ? raise(failure) : value
    end

    # @return [Object] the block's value, computed on a thread that must end within `limit` seconds
    def on_thread(limit = LOOP_LIMIT, &block)
      thread = nil
      ended = waiting_only do
        thread = Thread.new(&block)
        thread.report_on_exception = false
        thread.join(limit)
      end
      unless ended
        where = thread.backtrace&.first(12)
        thread.kill
        flunk "the loop was still running after #{limit} s at:\n  #{where&.join("\n  ")}"
      end
      thread.value
    end

    # A virtual clock doesn't wait for a thread that only waits for the loop.
    def waiting_only
      NeverBlock::ThreadPool.mark_idle(Thread.current, NeverBlock::Clock.virtual?)
      yield
    ensure
      NeverBlock::ThreadPool.mark_idle(Thread.current, false)
    end

    # Inside a loop: lets other fibers run until the block is true.
    # @param what [String, Proc] names the condition in the failure
    # @return [Object] the block's value
    def pass_until(what = "the condition", &) = NeverBlockTest.wait_until(what, &)

    # Parks for a moment: for what happens only while the loop sleeps in the kernel, or for a wait that ends by itself.
    # @return [Integer] 0 or more, as `sleep` does
    def nap(seconds = 0.001) = sleep(seconds) # real: the kernel's timer

    # Seconds of CPU that the block took on this thread; other threads don't count.
    def cpu_time
      start = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
      yield
      Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - start
    end

    # The task's value, or the exception that ended it.
    def outcome(task)
      task.value
    rescue Exception => error # standard:disable Lint/RescueException -- the exception is what the test looks at
      error
    end
  end
end
