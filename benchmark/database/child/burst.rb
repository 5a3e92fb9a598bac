# frozen_string_literal: true

# A number of fibers that each ask for one row at the same time: the time until the last has it, and the memory that they
# take while they wait.
#
#   Measured::Burst.new(work, executor, fibers: 10_000).call   # => {operations: 10_000, wall: 0.6, bytes: 14_000, ...}
require_relative "../../servers/process_tree"
require_relative "clock"

module Measured
  class Burst
    WARM = 100 # at a time

    # @param work [Work]
    # @param executor [Object] of Executor, running
    # @param fibers [Integer]
    def initialize(work, executor, fibers:)
      @work = work
      @executor = executor
      @fibers = fibers
    end

    # @return [Hash{Symbol=>Numeric}] bytes: by which the process is larger when the last one begins, for each
    def call
      5.times { go(WARM) }
      before = memory
      used = Clock.used
      go(@fibers)
      used = Clock.since(used)
      {operations: @fibers, rate: @fibers / used[:wall], bytes: (@most - before) / @fibers, **used}
    end

    private

    def go(count)
      GC.start
      begun = done = 0
      failure = nil
      count.times do
        @executor.start do
          @most = memory if (begun += 1) == count
          @work.find(begun)
        rescue => error
          failure ||= error
        ensure
          done += 1
        end
      end
      sleep 0.001 until done == count
      raise failure if failure
    end

    def memory = Bench::Servers::ProcessTree.new(Process.pid).memory
  end
end
