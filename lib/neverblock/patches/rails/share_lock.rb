# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # The lock between requests and reloading (ActiveSupport::Concurrency::ShareLock) goes by the thread, which all
      # requests share here: code would be unloaded under those that run (rails#57423, fixed in 8.2). It asks `Thread.current`
      # for the owner and nothing else of Thread, so a constant of that name beside it is all it takes to go by the fiber.
      module ShareLock
        # What stands in for Thread there.
        module Owner
          # @return [Fiber, Thread] whom Rails takes for one execution
          def self.current = ActiveSupport::IsolatedExecutionState.context
        end

        # Whether one fiber gets the lock for itself while another shares it.
        def self.needed?
          return false unless ActiveSupport::IsolatedExecutionState.isolation_level == :fiber
          lock = ActiveSupport::Concurrency::ShareLock.new
          lock.start_sharing
          Fiber.new { lock.start_exclusive(purpose: :unload, no_wait: true) }.resume
        end

        def self.apply = ActiveSupport::Concurrency::ShareLock.const_set(:Thread, Owner)
      end
    end
  end
end
