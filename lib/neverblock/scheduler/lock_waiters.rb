# frozen_string_literal: true

module NeverBlock
  # The end of a process in which fibers that never go on still wait for a Mutex, as in a forked child: where one is
  # locked then, Ruby asks the thread's scheduler to wake the first of them, and aborts if there is none. The reasons are
  # in ext/neverblock/scheduler/lock_waiters.c.
  #
  #   at_exit { LockWaiters.before_exit }
  #
  # @api private
  module LockWaiters
    # A scheduler that wakes no fiber. Hooks that handlers registered before ours call at the exit wait the blocking way.
    class Doorman
      # Ruby asks again when it has to go on waiting, but for a thread.
      PAUSE = 0.005
      private_constant :PAUSE

      def unblock(_blocker, _fiber) = nil

      def block(blocker, timeout = nil)
        Fiber.blocking { (Thread === blocker) ? blocker.join(timeout) : sleep([PAUSE, timeout].compact.min) } && true
      end

      def kernel_sleep(...) = Fiber.blocking { sleep(...) }

      def io_wait(io, events, timeout = nil) = Fiber.blocking { io.wait(events, timeout) }

      def fiber_interrupt(fiber, exception) = fiber.raise(exception)
    end

    # @return [void]
    def self.before_exit
      Loops.forked.each(&:forget_parent)
      Fiber.set_scheduler(Doorman.new) if Scheduler.lock_waiters? && !Fiber.scheduler
    end

    at_exit { before_exit }
  end
end
