# frozen_string_literal: true

# A closed loop: a fixed number of operations by a fixed number of fibers or threads, each of which begins the next one when
# the last is done. Without an executor the operations run one after another.
#
#   Measured::ClosedLoop.new(executor, fibers: 100).call(1_000) { |number| query }
module Measured
  class ClosedLoop
    # @param executor [Object, nil] of Executor, running
    # @param fibers [Integer] how many; threads are as many as there are
    def initialize(executor, fibers:)
      @executor = executor
      @workers = executor&.fibers? ? fibers : executor&.number
    end

    # @param count [Integer]
    # @yieldparam number [Integer] from 0 on, each once, in this order
    # @return [void]
    # @raise [StandardError] the first error of the block
    def call(count, &block)
      return count.times(&block) unless @executor
      number = -1
      done = Thread::Queue.new
      @workers.times do
        @executor.start do
          while (mine = number += 1) < count
            block.call(mine)
          end
          done << nil
        rescue => error
          number = count
          done << error
        end
      end
      failure = Array.new(@workers) { done.pop }.compact.first
      raise failure if failure
    end
  end
end
