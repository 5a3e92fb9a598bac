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

      # @return [Float, nil] when it is ready, for one that no helper need wait for
      def due = nil

      # Takes from the source, without waiting.
      # @return [Array(Object), nil] the value; nil if the source is not ready
      def take = raise(NotImplementedError)

      # Waits, in a helper task, until the source may be ready.
      # @return [Array(Object), nil] the value, where waiting has taken it already
      def wait = raise(NotImplementedError)

      # Wakes another one who waits for the source, where a wake-up may have been spent on the helper.
      # @return [void]
      def pass_on
      end
    end
    private_constant :Case

    # A case of a queue.
    # @api private
    class QueueCase < Case
      # Whether `take` would succeed.
      def ready? = raise(NotImplementedError)

      # Takes or adds an item, waiting for it.
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

      # In a sized queue those who push and those who pop wait for the same object, so all are woken.
      def pass_on
        return if source.num_waiting.zero? || !ready?
        all = Thread::SizedQueue === source
        Loops.all.any? { |loop| loop.wake_waiter(source, all) && !all } || Scheduler.wake_threads_in_queues
      end
    end
    private_constant :QueueCase
  end
end
