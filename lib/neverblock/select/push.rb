# frozen_string_literal: true

module NeverBlock
  class Select
    # Room in a queue.
    # @api private
    class Push < QueueCase
      def initialize(source, block, item)
        super(source, block)
        @item = item
      end

      def ready? = !(Thread::SizedQueue === source) || source.size < source.max || source.closed?

      # A closed queue raises ClosedQueueError. A non-blocking push would report a closed, full queue as full.
      def act(non_block = false)
        (Thread::SizedQueue === source) ? source.push(@item, non_block && !source.closed?) : source.push(@item)
        @item
      end
    end
    private_constant :Push
  end
end
