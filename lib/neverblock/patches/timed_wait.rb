# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes Mutex#sleep and ConditionVariable#wait return nil after their time limit. Ruby drops the result of the
    # scheduler's kernel_sleep, so under a scheduler every such wait seems to have been woken.
    #
    #   mutex.synchronize { condition.wait(mutex, 1) or raise "no signal within a second" }
    #
    # Up to Ruby 3.4 ConditionVariable#wait calls Mutex#sleep by name.
    module TimedWait
      # For Thread::Mutex.
      module Sleep
        def sleep(timeout = nil)
          scheduler = Scheduler.current if timeout
          return super unless scheduler
          scheduler.nil_if_late { super }
        end
      end

      # For Thread::ConditionVariable.
      module Wait
        def wait(lock, timeout = nil)
          scheduler = Scheduler.current if timeout && ::Thread::Mutex === lock
          return super unless scheduler
          scheduler.nil_if_late { super }
        end
      end

      def self.targets
        {::Thread::Mutex => Sleep, ::Thread::ConditionVariable => (Wait if RUBY_VERSION >= "4.0")}.compact
      end

      def self.needed? = true
    end
  end
end
