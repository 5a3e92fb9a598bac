# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Hands the role and shard of `connected_to`, and `prohibit_shard_swapping`, down to child fibers. Active Record
      # keeps both by fiber, so that a child would use the default role and shard, where the parent has chosen others.
      #
      #   ActiveRecord::Base.connected_to(shard: :eu) { NB.spawn { Order.count } }     # counts those of :eu
      #
      # Fiber storage has the choice: an immutable one, which each change replaces. So a child has the choice of its
      # birth, also after the parent has left the block, and its own changes concern no other fiber.
      #
      # A thread inherits fiber storage too, and a pool's thread outlives the request that started it. So the choice is
      # for fibers of its own thread only; another thread begins with the defaults, as in Rails.
      module ConnectedTo
        # Key of the fiber storage.
        KEY = :neverblock_connected_to
        # Active Record's keys of the state of an execution.
        STACK = :active_record_connected_to_stack
        PROHIBITED = :active_record_prohibit_shard_swapping
        private_constant :KEY, :STACK, :PROHIBITED

        Choice = Struct.new(:thread, :entries, :prohibited)
        private_constant :Choice

        # A fiber's stack, which Active Record changes by these two methods.
        class Stack < Concurrent::Array
          def <<(entry)
            super
            ConnectedTo.hand_down
            self
          end

          def pop(...)
            super
          ensure
            ConnectedTo.hand_down
          end
        end
        private_constant :Stack

        # Prepended to the singleton of ActiveRecord::Base.
        module Records
          def connected_to_stack # :nodoc:
            own = ActiveSupport::IsolatedExecutionState[STACK]
            (Stack === own) ? own : (ConnectedTo.take_over(own) || super)
          end

          def shard_swapping_prohibited?
            connected_to_stack # takes the choice over
            super
          end

          def prohibit_shard_swapping(enabled = true)
            connected_to_stack
            super do
              ConnectedTo.hand_down
              yield
            end
          ensure
            ConnectedTo.hand_down
          end
        end

        # Prepended to the singleton of ActiveSupport::IsolatedExecutionState.
        module State
          # The fiber of ActionController::Live shares its request's state. It gets a stack of its own: the request
          # leaves its `connected_to` while the action goes on. From Rails 8.1 on the state is shared during a block.
          def share_with(other, **options, &block)
            return super.tap { part } unless block
            before = Fiber[KEY]
            begin
              super do
                part
                block.call
              end
            ensure
              Fiber[KEY] = before
            end
          end

          private

          def part = self[STACK] && ConnectedTo.take_over(self[STACK])
        end

        class << self
          # Begins a fiber's own stack, with the entries that it has already or inherits.
          # @param own [Array<Hash>, nil]
          # @return [Array<Hash>, nil] nil if the state is not by fiber
          def take_over(own)
            state = ActiveSupport::IsolatedExecutionState
            return unless state.isolation_level == :fiber
            inherited = Fiber[KEY] unless own
            inherited = nil unless inherited&.thread.equal?(Thread.current)
            state[PROHIBITED] = inherited.prohibited if inherited && !state.key?(PROHIBITED)
            state[STACK] = Stack.new(own || inherited&.entries || [])
            hand_down if own
            state[STACK]
          end

          # @return [void]
          def hand_down
            state = ActiveSupport::IsolatedExecutionState
            return unless state.isolation_level == :fiber
            entries, prohibited = [*state[STACK]].freeze, state[PROHIBITED]
            Fiber[KEY] = (Choice.new(Thread.current, entries, prohibited).freeze if entries.any? || prohibited)
          end

          # @return [void]
          def apply
            return if ActiveRecord::Base.singleton_class < Records
            ActiveRecord::Base.singleton_class.prepend(Records)
            ActiveSupport::IsolatedExecutionState.singleton_class.prepend(State)
          end
        end
      end
    end
  end
end
