# frozen_string_literal: true

require_relative "../limit"
require_relative "tools"

module NeverBlockTest
  module Effects
    # One call of a row and one way to leave: begins the operation in a task, makes the task leave while the operation
    # is under way, and checks the result.
    #
    #   Cell.walk(row, :cancel)     # raises Minitest::Assertion
    #
    # After a timeout or a cancellation, the check runs in the same loop. Thread#raise and Thread#kill end their loop,
    # so another loop runs the check.
    class Cell
      include Minitest::Assertions
      include Tools

      # The exception for Thread#raise.
      class Bother < StandardError; end

      ATTEMPTS = 60
      LONGEST_START = 6000 # looks, of half a millisecond or more
      FIRST_TIMEOUT = 0.004 # seconds; doubled until the operation is under way when the timeout fires

      # @return [Symbol] one of {WAYS}
      attr_reader :way

      # @return [Object] what the operation returned
      attr_reader :value

      # @return [Exception, nil] what ended the task
      attr_reader :error

      # @return [Integer] for Minitest
      attr_accessor :assertions

      class << self
        # Walks all calls of the row.
        # @return [Integer] how many assertions were made
        def walk(row, way)
          row.calls.sum do |call|
            walk_call(row, call, way)
          rescue Minitest::Assertion => error
            raise if call.nil?
            raise error, "#{error.message}\nwith #{call.inspect}", error.backtrace
          end
        end

        private

        # Tries until the task has left while the operation was under way.
        def walk_call(row, call, way)
          made = 0
          ATTEMPTS.times do |attempt|
            cell = new(row, call, way, attempt)
            struck = cell.call
            made += cell.assertions
            return made if struck
          end
          raise Minitest::Assertion, "#{row.name}, #{way}: in #{ATTEMPTS} attempts it was never under way when its waiter was to leave. " \
            "Where files are concerned, TMPDIR is perhaps a file system in memory"
        end
      end

      def initialize(row, call, way, attempt)
        @row = row
        @call = call
        @way = way
        @attempt = attempt
        @timeout = FIRST_TIMEOUT * 2**[attempt, 9].min
        @assertions = 0
        @strikes = Thread::Queue.new
        @cleaning = []
        @under_way = -> { true }
        @begun = @returned = @brief = @keeps_descriptors = false
      end

      # ---- the words of a row ----

      # @param kind [Symbol, Array<Symbol>] of the wait in which it is under way: see Task#waiting
      # @param brief [Boolean] whether it ends by itself after a moment: then the loop is blocked until the strike
      # @param value [Boolean] whether the caller gets its value if it is waited for
      def operation(kind, brief: false, value: @row.fate == :waited_for, &block)
        @kinds = Array(kind)
        @brief = brief
        @value_expected = value
        @operation = block
      end

      # A further condition that must hold before the strike.
      def under_way(&block) = @under_way = block

      # Ends an operation that defers the end of its task, once that end was requested.
      def shielded(&block) = @release = block

      # The check of the result, run in a loop.
      def check(&block) = @check = block

      # Starts with a longer timeout: a few milliseconds would pass before the operation is under way.
      def slow_start = @timeout = [@timeout, 0.05].max

      # Leaves descriptors to the garbage collector, as plain Ruby does.
      def keeps_descriptors = @keeps_descriptors = true

      # Runs at the end in any case; the last one first.
      def finally(&block) = @cleaning.unshift(block)

      # @return [Boolean] whether the operation returned, so that the exception was raised at the task's next wait
      def returned? = @returned

      # @return [Boolean] whether the operation was called
      def begun? = @begun

      # @return [Boolean] whether the task's loop was ended, and all its tasks with it
      def loop_ended? = %i[raise kill].include?(way)

      # ---- running a cell ----

      # @return [Boolean] false if the operation was not under way
      def call
        before = descriptors
        begin
          instance_exec(@call, &@row.prepare)
          thread = Thread.new { run }
          thread.report_on_exception = false
          strike_from_outside(thread) if loop_ended? && !@brief
          finish(thread)
          return false if @missed
          judge
          look_again if loop_ended?
          return false if missed_its_beginning?
        ensure
          @cleaning.each(&:call)
        end
        assert_empty new_descriptors(before), "descriptors that are left open" unless @keeps_descriptors
        true
      end

      private

      def run
        # The task's failure is judged later; the exception of Thread#raise must pass through.
        NeverBlock.run(on_error: ->(error) { raise error if error.is_a?(Bother) }) do |scope|
          @victim = scope.spawn { work }
          next unless await_under_way
          strike
          @release&.call
          outcome_of(@victim)
          settle
          look unless loop_ended?
        end
      ensure
        scheduler = NeverBlock::Scheduler.kept
        @left = scheduler.statistics
      end

      # The task.
      def work
        limited do
          @begun = true
          @value = @operation.call
          @returned = true
          sleep # the next wait gets an exception that did not end the operation
        end
      rescue Exception => error # standard:disable Lint/RescueException -- judged later
        @error = error
        raise
      end

      def limited(&block)
        return yield unless way == :timeout
        @deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @timeout
        Timeout.timeout(@timeout, &block)
      end

      def await_under_way
        LONGEST_START.times do |turn|
          return true if @kinds.include?(@victim.send(:waiting)&.first) && !@returned && @under_way.call
          break @missed = true if @returned || (@error && way == :timeout)
          raise @error if @error
          (turn < 50) ? NeverBlock.pass : sleep(0.0005) # real: a thread, a process or the kernel begins the operation
        end
        waits = @victim.waits_for
        @victim.cancel
        outcome_of(@victim)
        flunk "the operation is not under way: #{waits || "it does not wait"}" unless @missed
      end

      def strike
        hold(0.0001 * @attempt) if @brief
        case way
        when :timeout then hold(@deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.0005)
        when :cancel then @victim.cancel
        else
          @brief ? strike_here : (@strikes << true) && sleep
        end
      end

      # Blocks the loop.
      def hold(seconds) = seconds.positive? && Fiber.blocking { sleep(seconds) } # real: what is to end during it, ends in the kernel

      def strike_here = (way == :raise) ? Thread.current.raise(Bother) : Thread.current.kill

      def strike_from_outside(thread)
        wait_until("the operation to be under way") { @strikes.size == 1 || !thread.alive? }
        return unless thread.alive?
        (way == :raise) ? thread.raise(Bother) : thread.kill
        @release&.call
      end

      def finish(thread)
        flunk("the loop did not end within #{LIMIT} s:\n  #{thread.backtrace&.join("\n  ")}") unless thread.join(LIMIT)
      rescue Bother
        raise unless way == :raise
        @bothered = true
      ensure
        thread.kill
      end

      # Waits for the task; `judge` checks how it ended.
      def outcome_of(task)
        task.join
      rescue Exception # standard:disable Lint/RescueException
        nil
      end

      # Waits for work that must not go on.
      def settle
        return if @row.fate == :goes_on
        pass_until("the operation to be over") { Fiber.scheduler.statistics[:jobs].zero? }
      end

      def judge
        assert @bothered, "Thread#raise did not come through run" if way == :raise && !@missed
        assert_kind_of (way == :timeout) ? Timeout::Error : NeverBlock::Cancelled, error, "what ended the task"
        refute returned?, "the operation returned #{value.inspect[0, 80]}" unless @row.fate == :waited_for
        assert_equal({parked: 0, tasks: 0, timers: 0, interests: 0}, @left.slice(:parked, :tasks, :timers, :interests))
        assert_equal 0, @left[:jobs] unless @row.fate == :goes_on
      end

      # A call of a thread pool may have been withdrawn from the queue before it began: then nothing may have happened.
      def missed_its_beginning? = @value_expected && !returned?

      def look = instance_exec(&@check)

      def look_again
        failure = nil
        thread = Thread.new do
          NeverBlock.run do
            look
          rescue Exception => failure # standard:disable Lint/RescueException -- assertions are none
          end
        end
        thread.report_on_exception = false
        finish(thread)
        raise failure if failure
      end
    end
  end
end
