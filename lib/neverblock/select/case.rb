# frozen_string_literal: true

module NeverBlock
  class Select
    # One case of a select.
    # @api private
    class Case
      attr_reader :source, :block

      def initialize(source, block)
        @source = source
        @block = block
      end

      # @return [Float, nil] the time at which the case is ready, if it needs no helper
      def due = nil

      # Takes from the source, without waiting.
      # @return [Array(Object), nil] the value; nil if the source is not ready
      def take = raise(NotImplementedError)

      # Waits in a helper task until the source may be ready.
      # @return [Array(Object), nil] the value, if the wait has taken it already
      def wait = raise(NotImplementedError)

      # Wakes another waiter of the source, if the helper may have consumed a wake-up.
      # @return [void]
      def pass_on
      end
    end
    private_constant :Case

    # The base class for cases of a queue.
    # @api private
    class QueueCase < Case
      # Whether `take` would succeed.
      def ready? = raise(NotImplementedError)

      # Takes or adds an item, and waits for it if needed.
      def act = raise(NotImplementedError)

      def take
        return unless ready?
        [act(true)]
      rescue ThreadError # another thread was faster
        nil
      end

      def wait
        Scheduler.current.probe { act } unless ready?
      end

      # In a SizedQueue producers and consumers wait for the same object, so all waiters are woken.
      def pass_on
        return if source.num_waiting.zero? || !ready?
        all = Thread::SizedQueue === source
        Loops.all.any? { |loop| loop.wake_waiter(source, all) && !all } || Scheduler.wake_threads_in_queues
      end
    end
    private_constant :QueueCase
  end
end
