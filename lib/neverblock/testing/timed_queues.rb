# frozen_string_literal: true

module NeverBlock
  module Testing
    # Queue#pop(timeout:) and SizedQueue#push(timeout:) on a virtual clock. Ruby measures these limits by itself, so
    # without this module they would last as long as in real time. {VirtualClock.start} prepends it once. With the real
    # clock, and outside of a loop, Ruby's own methods run.
    # @api private
    module TimedQueues
      # @return [void]
      def self.install
        [Thread::Queue, Thread::SizedQueue].each { |queue| queue.prepend(Pop) }
        Thread::SizedQueue.prepend(Push)
      end

      # @return [Boolean] whether a call with this limit would wait on the virtual clock
      def self.wait?(non_block, seconds)
        !non_block && seconds.is_a?(Numeric) && seconds.positive? && Clock.virtual? && !Scheduler.current.nil?
      end

      # Ruby has three methods for one operation, and so has this module. They are no procs, so every Ractor may call
      # them.
      module Pop
        %i[pop shift deq].each do |name|
          class_eval <<~RUBY, __FILE__, __LINE__ + 1 # standard:disable Style/DocumentDynamicEvalDefinition
            def #{name}(non_block = false, timeout: nil)
              return super(non_block) if timeout.nil? # makes no object
              return super(non_block, timeout:) unless TimedQueues.wait?(non_block, timeout)
              NeverBlock.move_on_after(timeout) { super(non_block) }
            end
          RUBY
        end
      end

      # Likewise; `<<` takes no limit.
      module Push
        %i[push enq].each do |name|
          class_eval <<~RUBY, __FILE__, __LINE__ + 1
            def #{name}(object, non_block = false, timeout: nil)
              return super(object, non_block) if timeout.nil?
              return super(object, non_block, timeout:) unless TimedQueues.wait?(non_block, timeout)
              NeverBlock.move_on_after(timeout) { super(object, non_block) }
            end
          RUBY
        end
      end
    end
  end
end
