# frozen_string_literal: true

# Measures one stretch of code in this process: wall and processor time, objects
# allocated, and resident memory where it is asked for.
#
#   meter = Bench::Meter.new
#   meter.measure(1000) { 1000.times { work } }
#   meter.reading    # => {operations: 1000, wall: 0.0012, cpu: 0.0012, collecting: 0.0, objects: 0}
module Bench
  class Meter
    # @return [Hash{Symbol=>Numeric}] what the latest #measure found: wall, cpu and
    #   collecting (by the GC, wall time) in seconds, objects allocated, all for the
    #   operations as a whole
    attr_reader :reading

    # @param operations [Integer] how many the block does
    # @return [Object] the block's value
    def measure(operations)
      GC.start
      objects = GC.stat(:total_allocated_objects)
      collecting = GC.total_time
      cpu = clock(Process::CLOCK_PROCESS_CPUTIME_ID)
      wall = clock(Process::CLOCK_MONOTONIC)
      value = yield
      wall = clock(Process::CLOCK_MONOTONIC) - wall
      cpu = clock(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu
      objects = GC.stat(:total_allocated_objects) - objects
      collecting = (GC.total_time - collecting) / 1e9
      @reading = {operations:, wall:, cpu:, collecting:, objects:}
      value
    end

    # Adds figures to the reading, such as memory.
    def note(figures) = @reading.update(figures)

    # @return [Integer] bytes of this process in memory, page tables included
    def self.memory
      status = File.read("/proc/self/status")
      %w[VmRSS VmPTE].sum { |field| status[/^#{field}:\s+(\d+) kB/, 1].to_i * 1024 }
    end

    private

    def clock(id) = Process.clock_gettime(id)
  end
end
