# frozen_string_literal: true

module NeverBlock
  # Ends timeouts of code that never waits: `Timeout.timeout(1) { loop {} }`.
  #
  # A loop's timers fire on its home fiber, which can't run while a task computes. So one helper thread per Ractor
  # checks shortly after each deadline whether the running task has passed it, and raises in the loop's thread, which
  # runs the task. The helper sleeps while no deadline is near. A timeout that is cancelled in time costs it nothing,
  # and a later deadline doesn't wake it earlier.
  # @api private
  class TimeoutWatchdog
    GRACE = 0.02 # seconds after a deadline in which the loop itself may act
    PAUSE = 50_000_000 # minimum nanoseconds between two checks
    IDLE_SECONDS = 5
    private_constant :GRACE, :PAUSE, :IDLE_SECONDS

    # @return [TimeoutWatchdog] the watchdog of this Ractor
    def self.instance = Ractor.current[:neverblock_timeout_watchdog] ||= new

    def initialize
      @lock = Thread::Mutex.new
      @changed = Thread::ConditionVariable.new
      @schedulers = ObjectSpace::WeakMap.new
    end

    # Makes the helper check soon after a deadline.
    # @param scheduler [Scheduler] the scheduler of the task
    # @param deadline [Integer] nanoseconds on the monotonic clock
    # @return [void]
    def watch(scheduler, deadline)
      return if @planned && @planned <= deadline + PAUSE && @thread&.alive? && @schedulers.key?(scheduler)
      plan(scheduler, deadline)
    end

    private

    # Runs in blocking mode: the lock is held for a moment only, and the loop must not switch to another fiber.
    def plan(scheduler, deadline)
      Fiber.blocking do
        @lock.synchronize do
          @schedulers[scheduler] = true
          @planned = [@planned, deadline + PAUSE].compact.min
          @thread = ThreadPool.start_idle("neverblock timeouts") { look_out } unless @thread&.alive?
          @changed.signal
        end
      end
    end

    def look_out
      @lock.synchronize do
        while @planned
          pause = @planned - now
          @changed.wait(@lock, pause / 1e9) if pause.positive?
          look if @planned <= now
        end
        @thread = nil # set under the lock, so that the next `plan` starts another thread
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

    def now = Clock.nanoseconds
  end
end
