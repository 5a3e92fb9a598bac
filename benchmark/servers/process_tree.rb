# frozen_string_literal: true

# A process and its descendants, as Linux accounts for them.
#
#   tree = Bench::Servers::ProcessTree.new(pid)
#   tree.cpu       # => 1.234, seconds of processor time, all threads
#   tree.memory    # => 41_943_040, bytes, pages shared with others in part (PSS)
module Bench
  class Servers
    class ProcessTree
      CPU_CLOCK = 2 # CPUCLOCK_SCHED of the kernel's posix-timers.h: nanoseconds, where /proc/PID/stat has ticks of 10 ms

      # @param pid [Integer]
      def initialize(pid)
        @pid = pid
      end

      # @return [Array<Integer>] the process first
      def pids
        found = [@pid]
        found.each { |pid| found.concat(children(pid)) }
        found
      end

      # @return [Float] seconds, of living processes; ended threads count
      def cpu
        pids.sum do |pid|
          Process.clock_gettime((~pid << 3) | CPU_CLOCK)
        rescue Errno::EINVAL, Errno::ESRCH
          0.0
        end
      end

      # @return [Integer] bytes
      def memory
        pids.sum do |pid|
          File.read("/proc/#{pid}/smaps_rollup")[/^Pss:\s+(\d+) kB/, 1].to_i * 1024
        rescue Errno::ENOENT, Errno::ESRCH
          0
        end
      end

      private

      def children(pid)
        Dir.glob("/proc/#{pid}/task/*/children").flat_map do |file|
          File.read(file).split.map { |child| Integer(child) }
        rescue Errno::ENOENT, Errno::ESRCH
          []
        end
      end
    end
  end
end
