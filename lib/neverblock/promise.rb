# frozen_string_literal: true

module NeverBlock
  # A value that comes later, settled once, from any fiber, thread or trap handler.
  #
  #   ready = NeverBlock::Promise.new
  #   client.on_connect { |session| ready.fulfill(session) }
  #   client.on_failure { |error| ready.reject(error) }
  #   session = ready.value(timeout: 5)
  #
  # Any number of fibers and threads may wait for it, inside loops and outside of them. {NeverBlock.select} takes it too.
  class Promise
    # What waiters wait for; named for those who read `NeverBlock.tasks`. Nothing is ever pushed: it is closed.
    class Gate < Thread::Queue; end
    private_constant :Gate

    # @return [Exception, nil] what it was rejected with
    attr_reader :error

    def initialize
      @gate = Gate.new
      @turns = [true] # Array#pop is atomic, also in trap handlers, where no Mutex may be locked
      @value = @error = nil
    end

    undef_method :initialize_copy # as a Queue's: a copy would be settled with the original, and have no value

    # Settles it with a value.
    # @param value [Object]
    # @return [Boolean] false if it was settled before, and stays as it is
    def fulfill(value = nil) = settle { @value = value }

    # Settles it with an error, which `value` raises.
    # @param error [Exception, Class, String] an exception, its class, or the message of a RuntimeError
    # @return [Boolean] false if it was settled before, and stays as it is
    def reject(error)
      error = RuntimeError.new(error) if error.is_a?(String)
      error = error.exception if error.is_a?(Class) && error <= Exception
      raise ArgumentError, "reject: #{error.inspect} is no exception, class of exceptions or String" unless error.is_a?(Exception)
      settle { @error = error }
    end

    # Waits until it is settled, and raises nothing that it was rejected with.
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [self, nil] nil if it was not settled in time
    def wait(timeout: nil)
      Options.seconds("timeout", timeout)
      @gate.pop(timeout:) unless settled?
      self if settled?
    end

    # Waits for the value.
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [Object]
    # @raise [Exception] what it was rejected with, the same object each time
    # @raise [TimeoutError] if it was not settled in time
    def value(timeout: nil)
      raise TimeoutError, "the promise was not settled within #{timeout} s" unless wait(timeout:)
      @error ? raise(@error) : @value
    end

    # @return [Boolean] whether it has a value or an error
    def settled? = @gate.closed?

    # @return [Boolean] whether it has a value
    def fulfilled? = settled? && !@error

    # @return [Boolean] whether it has an error
    def rejected? = settled? && !!@error

    # @return [String]
    def inspect
      state = if rejected? then "rejected with #{@error.class}"
      else settled? ? "fulfilled" : "#{@gate.num_waiting} waiting"
      end
      "#<NeverBlock::Promise #{state}>"
    end

    private

    # Closing the gate wakes all waiters; a waiter that leaves early leaves nothing behind. Whole, whatever Thread#raise does:
    # a promise whose turn is taken, and whose gate is open, could never be settled.
    def settle
      Scheduler.uninterrupted do
        next false unless @turns.pop
        yield
        @gate.close
        true
      end
    end
  end
end
