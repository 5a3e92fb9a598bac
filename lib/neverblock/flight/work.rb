# frozen_string_literal: true

module NeverBlock
  class Flight
    # One computation of an owned flight, in a task or a thread of its own.
    #
    #   work = Work.new(key, table)
    #   work.start { compute }
    #   work.wait
    #   work.result if work.answered?
    #
    # The table's lock guards what changes.
    # @api private
    class Work
      # The callers' queue. Nothing is pushed; closing it wakes them. The class name appears in {NeverBlock.tasks}.
      class Gate < Thread::Queue; end
      private_constant :Gate

      ABANDONED = "all callers of this computation have left"
      private_constant :ABANDONED

      # @return [Object]
      attr_reader :key
      # @return [Task, Thread, nil] that computes; nil before it begins
      attr_reader :runner
      # @return [Thread, nil] the thread of the loop that computes
      attr_reader :loop_thread
      # @return [Exception, nil] that has ended it without a result
      attr_reader :ended_by
      # @return [Integer] callers that wait
      attr_accessor :waiting
      # @return [Work, nil] that is computed in its place, because it has ended without a result
      attr_accessor :successor

      # @param key [Object]
      # @param table [Owned]
      def initialize(key, table)
        @key = key
        @table = table
        @gate = Gate.new
        @waiting = 0
        @answered = false
        @runner = @loop_thread = @value = @error = @ended_by = @successor = nil
      end

      # Starts the task, which runs until its first wait, or the thread.
      # @return [void]
      def start(&)
        scheduler = Scheduler.current
        scheduler ? in_loop(scheduler, &) : in_thread(&)
      end

      # @return [void]
      def begin
        @runner = Task.current || Thread.current
        @loop_thread = Thread.current if Task === @runner
      end

      # @return [Boolean]
      def begun? = !@runner.nil?

      # Cancels it at its present or next wait.
      # @return [void]
      def cancel
        return @runner.cancel(ABANDONED) if Task === @runner
        @runner.raise(Cancelled.new(reason: ABANDONED))
      end

      # Wakes all callers.
      # @return [void]
      def close = @gate.close

      # @return [Boolean]
      def over? = @gate.closed?

      # @return [void]
      def wait = @gate.pop

      # @return [Boolean] whether it has a value or an error
      def answered? = @answered

      # @return [Object]
      # @raise [Exception] a copy of its error: what one caller adds to it, such as further failures of a scope or the
      #   marks of an error reporter, concerns no other. The cause is the error's own, never one of the caller
      def result
        return @value unless @error
        raise copy, cause: @error.cause
      end

      private

      # Nobody's storage: the task is not part of the first caller's request.
      def in_loop(scheduler, &compute)
        task = scheduler.background(storage: {}) { run(&compute) }
        task.origin = compute
        task.name = "flight"
        fail_to_start(task) unless begun? || task.alive?
      end

      def fail_to_start(task)
        @error = task.error
        @answered = !@error.nil?
        @table.finish_work(self)
      end

      # A thread inherits the storage and the masks of its creator. As in a task, a cancellation comes at a wait.
      def in_thread(&compute)
        Thread.new {
          begin
            Thread.handle_interrupt(Object => :immediate) do
              run { Thread.handle_interrupt(Cancelled => :on_blocking) { outside_of_requests(&compute) } }
            end
          rescue Cancelled
            nil # it came when the work had ended
          end
        }.name = "neverblock flight"
      end

      def outside_of_requests(&) = Fiber.new(blocking: true, storage: {}, &).resume

      def run
        return unless @table.begin_work(self)
        @value = yield
        @answered = true
      rescue SystemExit, SignalException => error # these end the program from any task or thread
        @ended_by = error
        raise
      rescue Cancelled => error
        @ended_by = error
      rescue Exception => error # standard:disable Lint/RescueException -- the callers get it, whatever it is
        @error = error
        @answered = true
      ensure
        @table.finish_work(self)
      end

      def copy
        @error.clone(freeze: false)
      rescue => _uncopyable
        @error
      end
    end
    private_constant :Work
  end
end
