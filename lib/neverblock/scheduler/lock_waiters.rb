# frozen_string_literal: true

module NeverBlock
  # Prevents an abort at the exit of a process with fibers that wait for a Mutex and never continue, such as a forked
  # child. If the mutex is locked then, Ruby asks the thread's scheduler to wake the first fiber, and aborts without a
  # scheduler. The reasons are in ext/neverblock/scheduler/lock_waiters.c.
  #
  #   at_exit { LockWaiters.before_exit }
  #
  # @api private
  module LockWaiters
    # A scheduler that wakes no fiber. Exit handlers that were registered before ours use its hooks, which block.
    class Doorman
      # Seconds until a wait returns. Ruby repeats the wait unless it is for a thread.
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

    # Installs the doorman if a lock has waiting fibers and the thread has no scheduler.
    # @return [void]
    def self.before_exit
      Loops.forked.each(&:forget_parent)
      Fiber.set_scheduler(Doorman.new) if Scheduler.lock_waiters? && !Fiber.scheduler
    end

    at_exit { before_exit }
  end
end
