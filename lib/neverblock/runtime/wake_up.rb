# frozen_string_literal: true

module NeverBlock
  # Lets one fiber, or a thread outside of loops, wait until another one gives it something. The fiber runs next, before
  # those that are due already, since what it gets is unused until then.
  #
  #   wake_up = WakeUp.new            # of the present fiber
  #   wake_up.wait(5)                 # => true; false: nothing came within 5 s
  #   wake_up.call                    # by another fiber, or on another thread
  # @api private
  class WakeUp
    def initialize
      @woken = @parked = false
      @loop = Scheduler.current
      @fiber = Fiber.current
      @queue = Thread::Queue.new unless @loop
    end

    # Returns at once if {#call} came since the last wait.
    # @param seconds [Numeric, nil] the longest wait; nil: no limit
    # @return [Boolean] false if it was not called in time
    def wait(seconds = nil)
      return !@queue.pop(timeout: seconds).nil? if @queue
      @parked = true
      # A call between the end of the time and this line is told by @woken alone.
      @woken || @loop.block(self, seconds) || @woken
    ensure
      @woken = @parked = false
    end

    # Ends the wait. Thread-safe.
    # @return [void]
    def call
      return @queue << true if @queue
      @woken = true
      @loop.unblock_next(self, @fiber) if @parked
    end
  end
end
