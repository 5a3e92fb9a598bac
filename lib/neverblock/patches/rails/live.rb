# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Runs the actions of ActionController::Live in tasks of the loop, instead of threads of an unbounded pool. An
      # action also gets the state of its request (Current attributes, connected_to). Rails looks for that state at the
      # thread, even with the isolation level :fiber (rails#56902, fixed in 8.2).
      module Live
        # The fiber variable that holds the context of the action's request.
        REQUEST = :neverblock_live_request

        # Prepended to ActionController::Live.
        module Action
          private

          def new_controller_thread
            request = ActiveSupport::IsolatedExecutionState.context
            action = lambda do
              Thread.current[REQUEST] = request
              yield
            ensure
              Thread.current[REQUEST] = nil
            end
            return super(&action) unless Scheduler.current && Task.current # another server, or a test
            NeverBlock.spawn(name: "#{self.class}##{action_name}", &action)
          end
        end

        # Prepended to the singleton of ActiveSupport::IsolatedExecutionState.
        module State
          def share_with(other, **options, &block)
            request = Thread.current[REQUEST] if Thread === other && scope == Fiber
            super(request || other, **options, &block)
          end
        end

        def self.needed?
          defined?(ActionController::Live) && ActiveSupport::IsolatedExecutionState.isolation_level == :fiber
        end

        def self.apply
          ActionController::Live.prepend(Action)
          ActiveSupport::IsolatedExecutionState.singleton_class.prepend(State)
        end
      end
    end
  end
end
