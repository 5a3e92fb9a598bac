# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Makes the lock between requests and reloading (ActiveSupport::Concurrency::ShareLock) work per fiber. It works
      # per thread, which all requests share here, so code would be unloaded under running requests (rails#57423,
      # fixed in 8.2). The class uses `Thread.current` as the owner and nothing else of Thread, so a constant of that
      # name inside the class suffices.
      module ShareLock
        # Replaces Thread inside ShareLock.
        module Owner
          # @return [Fiber, Thread] the owner: Rails' context of one execution
          def self.current = ActiveSupport::IsolatedExecutionState.context
        end

        # Tests whether one fiber gets the exclusive lock while another fiber shares it.
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
