# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Plain threads beside the loop, and calls offloaded to threads.
    module Threads
      private

      # Starts a plain thread that ends by itself.
      # @param value [Object, nil] its value; nil: any
      # @return [Thread]
      def helper(value, &block)
        thread = Thread.new(&block)
        @ledger.helpers << Ledger::Helper.new(thread, value)
        thread
      end

      def settle_helpers
        @ledger.helpers.each do |helper|
          next ledger.fail(:thread_left, "a thread has not ended: #{helper.thread.inspect}") unless helper.thread.join(10)
          value = helper.thread.value
          ledger.check(:thread_value, helper.value.nil? || value == helper.value) { "a thread has the value #{value.inspect} for #{helper.value}" }
        end
      end

      def op_thread(node, at)
        kind, seconds, limit, join = node.args.values_at(:kind, :seconds, :limit, :join)
        value = "value #{@ledger.number}"
        start = Thread::Queue.new
        thread = helper(value) do
          case kind
          when :sleep then sleep(seconds)
          when :run then NeverBlock.run { sleep(seconds) }
          else start.pop(timeout: 5)
          end
          value
        end
        start << true
        expired, found = limited(at, limit) { join ? thread.join : thread.value }
        ledger.check(:thread_value, expired || found == (join ? thread : value)) { "a thread's value is #{found.inspect}, not #{value}" }
      end

      def op_feeder(node, _at)
        queue, items, seconds = node.args.values_at(:queue, :items, :seconds)
        helper(nil) do
          items.times do
            sleep(seconds)
            put(queue, 1)
          end
          nil
        end
      end

      def op_offload(node, at)
        kind, seconds, limit = node.args.values_at(:kind, :seconds, :limit)
        return many_offloads(at, seconds) if kind == :many
        times = 0
        value = "value #{@ledger.number}"
        expired, found = limited(at, limit) do
          NeverBlock.offload do
            times += 1
            offloaded(kind, seconds)
            value
          end
        end
        ledger.check(:offload_value, expired || found == value) { "offload returned #{found.inspect}, not #{value}" }
        ledger.check(:offload_value, times == 1 || (expired && times < 2)) { "an offloaded block ran #{times} times" }
      end

      def offloaded(kind, seconds)
        case kind
        when :sleep then sleep(seconds)
        when :run then NeverBlock.run { sleep(seconds) }
        when :nested then NeverBlock.run { NeverBlock.offload { sleep(seconds) } }
        end
      end

      # More calls than the pool has threads, each with a run that needs one more.
      def many_offloads(at, seconds)
        path = File.join(@folder, "empty")
        File.write(path, "")
        inside(at) do
          20.times do
            start(nil, at) do
              NeverBlock.offload { NeverBlock.run { File.read(path) && NeverBlock.offload { sleep(seconds) } } }
            end
          end
        end
      end
    end
  end
end
