# frozen_string_literal: true

module NeverBlock
  # A value that arrives later. It is settled once, from any fiber, thread or trap handler.
  #
  #   ready = NeverBlock::Promise.new
  #   client.on_connect { |session| ready.fulfill(session) }
  #   client.on_failure { |error| ready.reject(error) }
  #   session = ready.value(timeout: 5)
  #
  # Any number of fibers and threads may wait, inside and outside of loops. {NeverBlock.select} accepts promises too.
  class Promise
    # The waiters' queue. Nothing is pushed; closing it wakes them. The class name appears in {NeverBlock.tasks}.
    class Gate < Thread::Queue; end
    private_constant :Gate

    # @return [Exception, nil] the error of a rejected promise
    attr_reader :error

    def initialize
      @gate = Gate.new
      @turns = [true] # Array#pop is atomic, also in trap handlers, which can't lock a Mutex
      @value = @error = nil
    end

    undef_method :initialize_copy # like Queue's: a copy would share the gate and have no value

    # Settles the promise with a value.
    # @param value [Object]
    # @return [Boolean] false if it was settled before; it is unchanged then
    def fulfill(value = nil) = settle { @value = value }

    # Settles the promise with an error, which `value` raises.
    # @param error [Exception, Class, String] an exception, its class, or the message of a RuntimeError
    # @return [Boolean] false if it was settled before; it is unchanged then
    def reject(error)
      error = RuntimeError.new(error) if error.is_a?(String)
      error = error.exception if error.is_a?(Class) && error <= Exception
      unless error.is_a?(Exception)
        raise ArgumentError, "reject: must be an exception, an exception class or a String, got #{error.inspect}"
      end
      settle { @error = error }
    end

    # Waits until the promise is settled. Doesn't raise the error of a rejected one.
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
    # @raise [Exception] the error of a rejected promise, the same object each time
    # @raise [TimeoutError] if it was not settled in time
    def value(timeout: nil)
      raise TimeoutError, "the promise was not settled within #{timeout} s" unless wait(timeout:)
      @error ? raise(@error) : @value
    end

    # @return [Boolean] whether the promise has a value or an error
    def settled? = @gate.closed?

    # @return [Boolean] whether the promise has a value
    def fulfilled? = settled? && !@error

    # @return [Boolean] whether the promise has an error
    def rejected? = settled? && !!@error

    # @return [String]
    def inspect
      state = if rejected? then "rejected with #{@error.class}"
      else settled? ? "fulfilled" : "#{@gate.num_waiting} waiting"
      end
      "#<NeverBlock::Promise #{state}>"
    end

    private

    # Closing the gate wakes all waiters; a waiter that leaves early needs no clean-up. The block is uninterruptible: a
    # promise with its turn taken and its gate open could never be settled.
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
