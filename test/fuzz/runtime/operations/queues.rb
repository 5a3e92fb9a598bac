# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Queue and SizedQueue: a pushed item is in exactly one place.
    module Queues
      private

      def prepare_queues
        @queues = [Thread::Queue.new, Thread::Queue.new, Thread::SizedQueue.new(2)]
        @closed_queues = []
      end

      def remaining_items
        [*@queues, *@closed_queues].flat_map { |queue| Array.new(queue.size) { queue.pop(true) } }
      end

      def op_push(node, at)
        number, items, limit = node.args.values_at(:queue, :items, :limit)
        items.times { put(number, limit) }
      end

      # @param limit [Float] seconds; a SizedQueue that stays full refuses the item
      def put(number, limit) = put_into(@queues[number], limit)

      def put_into(queue, limit)
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

      def take(number, at, &block) = take_from(@queues[number], at, &block)

      def take_from(queue, at)
        ended = false
        item = yield queue
        @ledger.received(item) if item
        ended = true
        item
      ensure
        @ledger.unsure_pop(at.serial) unless ended
      end

      # A queue of this operation that is closed: its items are taken, further pops get nil, pushes get an error.
      def op_close_queue(node, at)
        size, producers, consumers, seconds = node.args.values_at(:size, :producers, :consumers, :seconds)
        queue = size ? Thread::SizedQueue.new(size) : Thread::Queue.new
        @closed_queues << queue
        ended = []
        threads = []
        inside(at) do
          producers.each { |items| start(nil, at) { |strand| produce(queue, items, strand) } }
          consumers.each do |how|
            next threads << helper(nil) { consume(queue, :thread, nil, at, ended) && nil } if how == :thread
            start(nil, at) { |strand| consume(queue, how, node.args[:limit], strand, ended) }
          end
          nap(seconds, at)
          queue.close
        end
        threads.each(&:join)
        closed = ended.size == consumers.size && (queue.empty? || consumers.empty?) && refuses?(queue)
        ledger.check(:close_value, closed) { "#{ended.inspect} of #{consumers.inspect} have ended after the close, #{queue.size} items are left: #{node.title}" }
      ensure
        queue&.close # for waiting threads
      end

      def produce(queue, items, at)
        items.times do
          put_into(queue, nil)
          NeverBlock.pass
        end
      rescue ClosedQueueError
        ledger.check(:close_value, queue.closed?) { "a push to an open queue was refused in #{at.inspect}" }
      end

      def consume(queue, how, limit, at, ended)
        open = true
        while open
          expired, = limited(at, (limit if how == :limited)) do
            open = take_from(queue, at) { (how == :select) ? NeverBlock.select(queue).last : queue.pop }
          end
          open ||= expired
        end
        ended << how
      end

      def refuses?(queue)
        put_into(queue, 0)
        false
      rescue ClosedQueueError
        true
      end
    end
  end
end
