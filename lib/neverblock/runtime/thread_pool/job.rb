# frozen_string_literal: true

module NeverBlock
  class ThreadPool
    # One call that a thread performs for a fiber.
    #
    #   job = Job.new(Scheduler.current, :at_once, 1, block)
    #   job.await { queue << job }      # => the block's value; a thread calls perform
    #
    # The job's ticket is claimed once: by the thread that begins the job, or by a caller that leaves before.
    # @api private
    class Job
      # Interrupts the system call of a job whose caller leaves. It is never raised in the job: the threads mask it.
      class Interruption < Exception; end # standard:disable Lint/InheritException

      # Seconds between two checks while the loop is stopped.
      PAUSE = 0.001
      private_constant :PAUSE

      # @param scheduler [Scheduler] of the calling fiber
      # @param leave [:at_once, :at_end, :interrupted] see {ThreadPool#call}
      # @param depth [Integer] the depth of offloads made inside the block, also by threads that it starts
      # @param block [Proc]
      def initialize(scheduler, leave, depth, block)
        @leave = leave
        @block = block
        @storage = Fiber.current.storage || {}
        @storage[:neverblock_offload_depth] = depth
        @ticket = Scheduler::Ticket.new(scheduler, block)
      end

      # Parks the calling fiber until the job has ended.
      # @yield enqueues the job
      # @return [Object] the block's value
      # @raise [Exception] the block's exception
      def await
        yield
        @ticket.wait(self)
        raise @error if @error
        @result
      ensure
        leave_by_force unless @ticket.signalled?
      end

      # Called by the ticket when an exception should end the caller's wait.
      # @return [Boolean] whether the caller may leave now
      def leaving
        return true if @left ||= @ticket.claim || @leave == :at_once
        @thread&.raise(Interruption) if @leave == :interrupted && !@ended
        false
      end

      # Runs the block on the calling thread, unless the caller has left.
      # @return [void]
      def perform
        return unless @ticket.claim
        @thread = Thread.current
        @error = ThreadError.new("the thread of this offloaded call was killed")
        @result = run
        @error = nil
      rescue Exception => error # standard:disable Lint/RescueException -- raised again in the calling fiber
        @error = error
      ensure
        @ended = true
        drop_interruptions
        ThreadPool.mark_idle(Thread.current, true)
        @ticket.signal
      end

      private

      # Runs in a new fiber, so that jobs share no state. Fiber[] has the storage of the calling fiber.
      def run = Fiber.new(blocking: true, storage: @storage, &@block).resume

      # Handles a caller that Fiber#raise or Fiber#kill has unwound, and that can't park any more. Core's operations use
      # the caller's stack, so the loop is stopped until their end.
      def leave_by_force
        Fiber.blocking { sleep(PAUSE) until leaving || @ticket.signalled? }
      end

      # Discards an interruption that arrived when the job had just ended, so that the next job doesn't get it.
      def drop_interruptions
        while Thread.pending_interrupt?(Interruption)
          begin
            Thread.handle_interrupt(Interruption => :immediate) { Thread.pass }
          rescue Interruption
            next
          end
        end
      end
    end
  end
end
