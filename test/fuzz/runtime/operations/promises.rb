# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # NeverBlock::Promise: settled once, by tasks and threads that compete, with the same result for each waiter.
    module Promises
      # The error that a promise is rejected with.
      class Rejected < StandardError; end
      private_constant :Rejected

      private

      def op_promise(node, at)
        promise = NeverBlock::Promise.new
        settled = []
        seen = []
        threads = []
        inside(at) do
          node.args[:waiters].each do |how|
            next threads << helper(nil) { see(seen, promise) { promise.value(timeout: 5) } && nil } if how == :thread
            start(nil, at) { |strand| wait_for_promise(promise, how, node.args[:limit], seen, strand) }
          end
          node.args[:settlers].each do |by, how, seconds|
            next threads << helper(nil) { sleep(seconds) && settle_promise(promise, how, settled) && nil } if by == :thread
            start(nil, at) { |strand| nap(seconds, strand).then { settle_promise(promise, how, settled) } }
          end
        end
        threads.each(&:join)
        check_promise(promise, settled, seen, node)
      ensure
        promise&.fulfill # for waiting threads
      end

      # Records the result, by the task or thread that has settled the promise.
      def settle_promise(promise, how, settled)
        outcome = (how == :reject) ? Rejected.new("rejected") : "value #{@ledger.number}"
        settled << outcome if promise.public_send(how, outcome)
      end

      def wait_for_promise(promise, how, limit, seen, at)
        started = now
        limited(at, (limit if how == :timeout)) do
          case how
          when :timed then see(seen, promise) { promise.value(timeout: limit) } || ledger.check(:timeout_early, now - started >= limit) { "Promise#value(timeout: #{limit}) gave up after #{now - started} s" }
          when :wait then see(seen, promise) { promise.wait.value }
          when :select then see(seen, promise) { NeverBlock.select(promise).last }
          else see(seen, promise) { promise.value }
          end
        end
      end

      # @return [Boolean] false if the wait has given up
      def see(seen, promise)
        seen << yield
        true
      rescue Rejected => error
        seen << error
        true
      rescue NeverBlock::TimeoutError
        false
      end

      # An interrupted thread may have settled it without a record.
      def check_promise(promise, settled, seen, node)
        once = settled.size == 1 || (settled.empty? && ledger.interrupts > 0)
        same = seen.all? { |one| one.equal?(settled.first || seen.first) }
        ledger.check(:promise_value, once && same && promise.settled?) do
          "a promise was settled with #{settled.inspect}, and #{seen.inspect} was seen: #{promise.inspect}: #{node.title}"
        end
      end
    end
  end
end
