# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Queue and SizedQueue: an item that was pushed is somewhere exactly once.
    module Queues
      private

      def prepare_queues
        @queues = [Thread::Queue.new, Thread::Queue.new, Thread::SizedQueue.new(2)]
      end

      def remaining_items
        @queues.flat_map { |queue| Array.new(queue.size) { queue.pop(true) } }
      end

      def op_push(node, at)
        number, items, limit = node.args.values_at(:queue, :items, :limit)
        items.times { put(number, limit) }
      end

      # @param limit [Float] seconds; a SizedQueue that stays full does not get the item
      def put(number, limit)
        queue = @queues[number]
        item = @ledger.number
        done = false
        @ledger.pushing(item)
        done = (queue.is_a?(Thread::SizedQueue) ? queue.push(item, timeout: limit) : queue.push(item)) && true
      ensure
        done ? @ledger.pushed(item) : @ledger.not_pushed(item)
      end

      def op_pop(node, at)
        number, items, limit, how = node.args.values_at(:queue, :items, :limit, :with)
        items.times { pop_one(number, limit, how, at) }
      end

      def pop_one(number, limit, how, at)
        case how
        when :argument
          started = now
          item = take(number, at) { |queue| queue.pop(timeout: limit) }
          ledger.check(:timeout_early, item || now - started >= limit) { "pop(timeout: #{limit}) gave up after #{now - started} s" }
        when :timeout then limited(at, limit) { take(number, at, &:pop) }
        else take(number, at) { |queue| queue.pop(true) unless queue.empty? }
        end
      rescue ThreadError => error
        raise unless error.message == "queue empty" # another loop was faster
      end

      def take(number, at)
        ended = false
        item = yield @queues[number]
        @ledger.received(item) if item
        ended = true
        item
      ensure
        @ledger.unsure_pop(at.serial) unless ended
      end
    end
  end
end
