# frozen_string_literal: true

module NeverBlock
  # Ends timeouts of code that never waits: `Timeout.timeout(1) { loop {} }`.
  #
  # A loop's timers fire on its home fiber, which a block that computes keeps from running. So one helper thread per
  # Ractor looks, a little after each deadline, whether the running task has overslept one, and raises in the loop's
  # thread, where that task then is. It sleeps while no deadline is near: a timeout that is cancelled in time costs it
  # nothing, and a later deadline never wakes it earlier than it meant to look.
  # @api private
  class TimeoutWatchdog
    GRACE = 0.02 # seconds after the deadline in which the loop itself may notice
    PAUSE = 50_000_000 # nanoseconds between two looks at least
    IDLE_SECONDS = 5
    private_constant :GRACE, :PAUSE, :IDLE_SECONDS

    # @return [TimeoutWatchdog] this Ractor's
    def self.instance = Ractor.current[:neverblock_timeout_watchdog] ||= new

    def initialize
      @lock = Thread::Mutex.new
      @changed = Thread::ConditionVariable.new
      @schedulers = ObjectSpace::WeakMap.new
    end

    # Makes sure that somebody looks after the deadline.
    # @param scheduler [Scheduler] whose task it is
    # @param deadline [Integer] nanoseconds of the monotonic clock
    # @return [void]
    def watch(scheduler, deadline)
      return if @planned && @planned <= deadline + PAUSE && @thread&.alive? && @schedulers.key?(scheduler)
      plan(scheduler, deadline)
    end

    private

    # Blocking mode: the lock is only ever held for a moment, and the caller must not be switched away from.
    def plan(scheduler, deadline)
      Fiber.blocking do
        @lock.synchronize do
          @schedulers[scheduler] = true
          @planned = [@planned, deadline + PAUSE].compact.min
          @thread = Thread.new { look_out } unless @thread&.alive?
          @changed.signal
        end
      end
    end

    def look_out
      ThreadPool.mark_idle(Thread.current, true)
      Thread.current.name = "neverblock timeouts"
      @lock.synchronize do
        while @planned
          pause = @planned - now
          @changed.wait(@lock, pause / 1e9) if pause.positive?
          look if @planned <= now
        end
        @thread = nil # said under the lock: whoever plans next starts another
      end
    end

    def look
      @schedulers.keys.each { |scheduler| scheduler.strike(GRACE) }
      nearest = @schedulers.keys.filter_map(&:next_deadline).min
      @planned = nearest && [nearest + PAUSE, now + PAUSE].max
      idle unless @planned
    end

    def idle
      @changed.wait(@lock, IDLE_SECONDS)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end
end
