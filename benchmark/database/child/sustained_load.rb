# frozen_string_literal: true

# A closed loop for a set time: a number of fibers or threads, each of which begins the next operation when the last is done.
# Measures the rate, the cost, how long each operation takes, and how many fibers never got a turn.
#
#   Measured::SustainedLoad.new(work, executor, fibers: 1000, seconds: 1, warm: 0.5).call   # => {operations: 14_000, wall: 1.0, cpu: 0.7, ...}
require_relative "clock"

module Measured
  class SustainedLoad
    LONGEST = 4 # seconds until everyone should have had a turn

    # @param work [Work]
    # @param executor [Object] of Executor, running
    # @param fibers [Integer, nil] how many; threads are as many as there are
    # @param seconds [Numeric]
    # @param warm [Numeric] seconds before anything counts, from when each has done one
    def initialize(work, executor, fibers:, seconds:, warm:)
      @work = work
      @executor = executor
      @workers = executor.fibers? ? fibers : executor.number
      @seconds = seconds
      @warm = warm
      @number = @done = 0
      @busy = @workers
      @begun = 0
      @times = []
    end

    # @return [Hash{Symbol=>Numeric}]
    # @raise [StandardError] the first error of an operation
    # @raise [RuntimeError] if nothing was done: then there is no cost of an operation
    def call
      @workers.times { @executor.start { go_on } }
      all_had_a_turn
      sleep @warm
      GC.start
      @times.clear
      used = Clock.used
      before = @done
      sleep @seconds
      used = Clock.since(used)
      done = @done - before
      figures = {operations: done, rate: done / used[:wall], starved: @workers - @begun, **used, **Clock.spread(@times)}
      @stop = true
      sleep 0.001 until @busy.zero?
      raise @failure if @failure
      done.zero? ? raise("no operation ended in #{@seconds} s: take longer, by --seconds") : figures
    end

    private

    # Connections are open then. A pool that is not fair lets some wait for ever.
    def all_had_a_turn
      deadline = Clock.now + LONGEST
      sleep 0.001 until @begun == @workers || @stop || Clock.now > deadline
    end

    def go_on
      one
      @begun += 1
      one until @stop
    rescue => error
      @failure ||= error
      @stop = true
    ensure
      @busy -= 1
    end

    def one
      started = Clock.now
      kind = @work.call(@number += 1)
      @done += 1
      @times << Clock.now - started unless kind == :slow
    end
  end
end
