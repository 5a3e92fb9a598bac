# frozen_string_literal: true

require_relative "obstacle"
require_relative "timed_queues"

module NeverBlock
  module Testing
    # Time that stands still while code runs, and jumps when all tasks wait. A test of an hour takes a millisecond, and
    # its times are exact on any machine.
    #
    #   VirtualClock.run do |clock|
    #     NeverBlock.timeout(3600) { sleep } rescue nil
    #     clock.elapsed   # => 3600.0
    #   end
    #
    # The clock is the whole process's. Every limit and age of NeverBlock is of this clock, and so are `sleep`,
    # `Timeout.timeout`, `ConditionVariable#wait`, `IO#timeout`, `IO.select`, `Queue#pop(timeout:)` and
    # `SizedQueue#push(timeout:)` in a loop, and {Clock}.
    #
    # **When it jumps.** A loop jumps to its next deadline when no task can go on, the kernel reports nothing, and
    # nothing else could end a wait: no offloaded call, no running thread, no other process. Sockets and pipes with both
    # ends in this process count as blocked. If anything else is outstanding, the loop waits in the kernel, and virtual
    # time passes as real time does: a task that waits for a database takes as long as the database does.
    #
    # **What stays real**: `Time.now` and `Process.clock_gettime` (use {Clock}), the number that `sleep` returns, code
    # outside of a loop, forked children, other processes, and native code's own limits. Code that computes takes no
    # time, so no timeout interrupts it.
    class VirtualClock
      LONGEST = 1e9 # seconds of one step
      PATIENCE = 60 # real seconds without a jump
      private_constant :LONGEST, :PATIENCE

      class << self
        # Runs the block in a loop ({NeverBlock.run}) with a virtual clock.
        # @param options [Hash] the options of {NeverBlock.run}
        # @yieldparam clock [VirtualClock]
        # @yieldparam scope [Scope]
        # @return [Object] the block's value
        # @raise [ConfigurationError] if a virtual clock is in use
        def run(**options)
          clock = start
          NeverBlock.run(**options) { |scope| yield clock, scope }
        ensure
          clock&.stop
        end

        # Makes the clock virtual until {#stop}, for tests that start loops themselves.
        # @return [VirtualClock]
        # @raise [ConfigurationError] if a virtual clock is in use
        def start
          if Clock.virtual?
            raise ConfigurationError, "a virtual clock is in use. It is the whole process's: stop it first"
          end
          @installed ||= TimedQueues.install || true
          Clock.start_virtual
          new
        end

        private :new
      end

      def initialize
        @started = Clock.nanoseconds
      end

      # Makes the clock real again. What still waits has as long to wait as before. A second call does nothing.
      # @return [void]
      def stop
        return unless running?
        @stopped = Clock.nanoseconds
        Clock.stop_virtual
      end

      # @return [Boolean] whether this clock is in use
      def running? = !@stopped && Clock.virtual?

      # @return [Float] seconds on {Clock.now}
      def now = Clock.now

      # @return [Float] virtual seconds from the start to now, or to {#stop}
      def elapsed = (((@stopped || Clock.nanoseconds) - @started) / 1e9).round(6)

      # Moves the time. In a task every other task runs at its own time on the way, and the call returns when all of
      # them wait again. Outside of a loop, only the time changes.
      # @param seconds [Numeric] 0 or more, and less than 10⁹, which is 31 years
      # @param limit [Numeric] real seconds: see {#settle}
      # @return [Float] {#elapsed}
      # @raise [ArgumentError] if the time would go back
      # @raise [ClosedError] after {#stop}
      # @raise [TimeoutError] as {#settle} does
      def advance(seconds, limit: PATIENCE)
        check
        unless seconds.is_a?(Numeric) && seconds.real? && seconds >= 0 && seconds < LONGEST
          raise ArgumentError, "advance: #{seconds.inspect} is not a number of seconds from 0 to 31 years"
        end
        Scheduler.current ? walk(seconds, limit) : Clock.advance(seconds)
        elapsed
      end

      # Waits, in a task, until all other tasks wait. Time doesn't move. Offloaded calls, threads and bytes that are on
      # their way between sockets of this process are waited for; other processes are not.
      # @param limit [Numeric] real seconds that time may stand still, for a thread or a task that never waits
      # @return [void]
      # @raise [ClosedError] after {#stop}
      # @raise [ThreadError] outside of a loop
      # @raise [TimeoutError] after the limit. The message names what goes on
      def settle(limit: PATIENCE)
        check
        wait_until(nil, limit)
      end

      private

      def walk(seconds, limit)
        target = Clock.nanoseconds + (seconds * 1_000_000_000).round
        [nil, target, nil].each { |time| wait_until(time, limit) }
      end

      def wait_until(target, limit)
        scheduler = Scheduler.current or raise ThreadError, "settle: call it in a task of a loop; there is none here"
        obstacle = scheduler.settle(target, (Options.seconds("limit", limit) * 1e9).round) or return
        raise TimeoutError, "virtual time has stood still for #{limit} s of real time. What goes on: " \
          "#{Obstacle.new(scheduler, obstacle)}"
      end

      def check
        raise ClosedError, "this virtual clock is stopped; VirtualClock.start makes another" unless running?
      end
    end
  end
end
