# frozen_string_literal: true

# The longest time for which one turn of the loop held the processor: a fiber that is due each millisecond compares the
# processor time of the thread with that of its last turn. So other processes do not count.
#
#   hold = Measured::Hold.new
#   NeverBlock.run do |scope|
#     watch = scope.spawn { hold.watch }
#     work
#     hold.stop
#     watch.value      # => {held: 0.031, held_working: 0.009, collecting: 0.22, memory_peak: 180_000_000}
#   end
module Measured
  class Hold
    LOOK = 0.001

    # Until stop is called.
    # @return [Hash{Symbol=>Numeric}] held, and held_working: the longest hold, with and without garbage collections in it;
    #   collecting: all of these; in seconds. memory_peak: the most that was resident, in bytes
    def watch
      held = working = 0.0
      began = collecting
      last = [used, began]
      until @stopped
        sleep LOOK
        now = [used, collecting]
        turn, collected = now.zip(last).map { |after, before| after - before }
        held = [held, turn].max
        working = [working, turn - collected].max
        last = now
      end
      {held:, held_working: working, collecting: collecting - began, memory_peak:}
    end

    # @return [void]
    def stop = @stopped = true

    private

    def used = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

    def collecting = GC.total_time / 1e9

    def memory_peak = File.read("/proc/self/status")[/^VmHWM:\s+(\d+) kB/, 1].to_i * 1024
  end
end
