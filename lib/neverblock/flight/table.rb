# frozen_string_literal: true

module NeverBlock
  class Flight
    # The computations that are under way, by their keys, and the lock around them.
    # @api private
    class Table
      # Code of one task waits for one thing at a time, also in the task's inner fibers. So does a thread outside of
      # loops. The fibers of a foreign scheduler are known as such only.
      # @return [Task, Thread, Fiber] the caller, as what a circle of waits is made of
      def self.strand = Task.current || (Fiber.current_scheduler ? Fiber.current : Thread.current)

      def initialize
        @mutex = Thread::Mutex.new
        @running = {}
        @waits = {}.compare_by_identity # strand => the computation that the strand waits for
        @process = Process.pid
      end

      # @return [Integer]
      def size = locked { @running.size }

      # @return [Integer] strands that wait
      def waiting = locked { @waits.size }

      # @param key [Object]
      # @return [Boolean] whether there was one
      def forget(key) = locked { !@running.delete(key).nil? }

      # @yieldparam key [Object]
      # @return [void]
      def forget_if = locked { @running.delete_if { |key, _| yield key } }

      private

      # No cancellation comes in between. A computation that is never taken out would be waited for for ever.
      def locked(&block)
        task = Task.current
        task ? task.shield { synchronize(&block) } : synchronize(&block)
      end

      def synchronize
        @mutex.synchronize do
          start_afresh unless @process == Process.pid
          yield
        end
      end

      # In a forked child the parent's computations never end.
      def start_afresh
        @process = Process.pid
        @running.clear
        @waits.clear
      end

      # @return [:circle, :held, nil] why the computation would never end if the strand waited for it
      def circle(work, strand)
        held = Thread.current unless Fiber.current_scheduler
        while work
          return :circle if work.runner.equal?(strand)
          return :held if held&.equal?(work.loop_thread)
          work = @waits[work.runner]
        end
      end

      def refuse(refusal, key)
        if refusal == :circle
          raise CircularError, "computing #{key.inspect} would wait for itself: the key is asked for inside its own " \
            "computation. Pass the value down instead of asking for it again"
        end
        raise CircularError, "computing #{key.inspect} would never end: the call blocks the thread whose loop " \
          "computes it. Call outside of NeverBlock.neverblock(false)"
      end
    end
    private_constant :Table
  end
end
