# frozen_string_literal: true

module WhatBlocks
  # The seconds in which this thread has neither run nor waited for a processor. A thread that the kernel has put to
  # sleep is idle; a thread that a busy machine lets wait is not, nor is one whose page faults are slow.
  #
  #   clock = IdleClock.new
  #   before = clock.now
  #   sleep 0.2
  #   clock.now - before    # => about 0.2, on any machine
  #
  # Linux counts the wait for a processor in /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst).
  # Where there is no such file, that wait counts as idle.
  class IdleClock
    STATISTICS = "/proc/thread-self/schedstat"

    # Reads the clock of the calling thread.
    def initialize
      @statistics = File.open(STATISTICS) if File.readable?(STATISTICS)
    end

    # @return [Float] seconds since some moment in the past
    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC) - Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - delay
    end

    private

    # The second field: nanoseconds in the queue of a processor.
    def delay
      return 0.0 unless @statistics
      Fiber.blocking { @statistics.pread(80, 0) }.split[1].to_i / 1e9
    end
  end
end
