# frozen_string_literal: true

module NeverBlock
  class Cache
    # Runs a fetch that belongs to the cache: in the background of the loop, or, outside of loops, in a thread.
    #
    #   Background.run(fill) { fetch.call }
    # @api private
    module Background
      class << self
        # Of a framework: called in the request, and returns nil, or what the fetch is to run in. Rails has per-request
        # state in an executor; a fetch of a request inside of one runs in an executor of its own.
        #
        #   Background.wrapper = -> { executor.method(:wrap) if executor.active? }
        # @return [#call, nil]
        attr_accessor :wrapper
      end

      # The task has no Fiber[] storage of the request.
      # @param fill [Fill] that may cancel the task
      # @return [void]
      def self.run(fill, &work)
        work = wrapped(work)
        scheduler = Scheduler.current
        return Thread.new { Fiber.new(blocking: true, storage: {}, &work).resume } unless scheduler
        begun = false
        task = scheduler.background(storage: {}) do
          fill.task = Task.current
          begun = true
          work.call
        end
        work.call unless begun || task.alive?
      end

      def self.wrapped(work)
        wrap = wrapper&.call
        wrap ? -> { wrap.call(&work) } : work
      end
      private_class_method :wrapped
    end
  end
end
