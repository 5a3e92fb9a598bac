# frozen_string_literal: true

# So many things by so many at once, or one after another where there is nothing to do them at once with.
#
#   Measured::Together.new(means, fibers: 100).call(1_000) { |number| query }
module Measured
  class Together
    # @param means [Object, nil] of Means, that runs
    # @param fibers [Integer] how many; threads are as many as there are
    def initialize(means, fibers:)
      @means = means
      @workers = means&.fibers? ? fibers : means&.number
    end

    # @param count [Integer]
    # @yieldparam number [Integer] from 0 on, each once, in this order
    # @return [void]
    # @raise [StandardError] what the block raised first
    def call(count, &block)
      return count.times(&block) unless @means
      number = -1
      done = Thread::Queue.new
      @workers.times do
        @means.start do
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
