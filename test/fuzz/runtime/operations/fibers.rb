# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Fibers inside a task: Enumerators that wait, are interrupted and dropped; Fiber#transfer.
    module Fibers
      private

      # @see #limited for the timeout inside, which is suspended with its Enumerator
      def op_enumerate(node, at)
        items, take, seconds, inner_limit, limit = node.args.values_at(:items, :take, :seconds, :inner_limit, :limit)
        yielded = []
        values = Enumerator.new do |yielder|
          items.times do |number|
            within(inner_limit) do
              sleep(seconds)
              yielded << number
              yielder << number
            end
          end
          :end
        end
        limited(at, limit) { take.times { |index| next_value(values, yielded) or break } }
      end

      def next_value(values, yielded)
        value = values.next
        ledger.check(:enumerator_value, value == yielded.last) { "next returned #{value.inspect} for #{yielded.last.inspect}" }
        true
      rescue StopIteration => stop
        ledger.check(:enumerator_value, stop.result == :end) { "the Enumerator's result is #{stop.result.inspect}" }
        false
      end

      # A timeout without a record in the strand: its block may be dropped in the middle.
      def within(seconds, &block)
        return yield unless seconds
        error = Class.new(OwnTimeout)
        started = now
        begin
          Timeout.timeout(seconds, error, &block)
        rescue error
          ledger.check(:timeout_early, now - started >= seconds) { "a timeout of #{seconds} s in an Enumerator ended after #{now - started} s" }
        end
      end

      # One fiber transfers to another, which executes the body and transfers back, whatever has happened in it.
      def op_transfer(node, at)
        first = failure = nil
        order = []
        second = Fiber.new do
          begin
            may_be_dropped(at, node.args[:limit]) { perform(node.body, at) }
          rescue Exception => error # standard:disable Lint/RescueException -- raised again by the first fiber
            failure = error
          end
          order << :second
          first.transfer
        end
        first = Fiber.new do
          limited(at, node.args[:limit], node.args[:kind]) do
            second.transfer
            raise failure if failure
          end
          order << :first
          :done
        end
        value = first.resume
        ledger.check(:transfer_value, value == :done && (order == %i[second first] || (node.args[:limit] && order == [:first]))) { "a transfer returned #{value.inspect} after #{order.inspect}: #{node.title}" }
      end

      # A timeout around the transfer leaves the second fiber, with its ensure blocks, in the middle.
      def may_be_dropped(at, condition)
        before = at.droppable
        at.droppable ||= condition && true
        yield
      ensure
        at.droppable = before
      end
    end
  end
end
