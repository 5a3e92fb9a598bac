# frozen_string_literal: true

# The time, the process's costs and waits, the load of both cores, and the distribution of waits.
require_relative "../../servers/core"

module Measured
  module Clock
    module_function

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # @return [Hash{Symbol=>Numeric}] so far
    def used
      {wall: now, cpu: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), objects: GC.stat(:total_allocated_objects),
       collecting: GC.total_time / 1e9, collections: GC.count, switches:, core: Bench::Servers::Core::SERVER.busy, server_core: Bench::Servers::Core::CLIENT.busy}
    end

    # @param before [Hash{Symbol=>Numeric}]
    # @return [Hash{Symbol=>Numeric}] used since; of the cores: the share of this one that others took, and the share of
    #   PostgreSQL's that was busy
    def since(before)
      figures = used.merge(before) { |_, after, earlier| after - earlier }
      core, server_core = %i[core server_core].map { |name| figures.delete(name) }
      {**figures, others: (core - figures[:cpu]) / figures[:wall], server_busy: server_core / figures[:wall]}
    end

    # @return [Integer] how often a thread of this process has given its core away, since it had to wait
    def switches = Dir["/proc/self/task/*/status"].sum { |path| File.read(path)[/^voluntary_ctxt_switches:\s+(\d+)/, 1].to_i }

    # @param times [Array<Float>] seconds
    # @return [Hash{Symbol=>Float}]
    def spread(times, prefix = "")
      sorted = times.sort
      return {} if sorted.empty?
      {p50: 0.5, p99: 0.99, p999: 0.999}.to_h { |name, share| [:"#{prefix}#{name}", sorted[((sorted.size - 1) * share).round]] }
    end
  end
end
