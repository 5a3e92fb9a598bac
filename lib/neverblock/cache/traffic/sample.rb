# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # A sample whose rate adapts: 1, then 1/2, 1/4 … of all ids are in it, chosen by the bits of the ids, which are
      # hashes. An id that was dropped stays out, so that what is in the sample is complete.
      #
      #   sample = Sample.new
      #   sample.include?(id)    # => true
      #   sample.halve           # the rate is 1/2 now
      #   sample.weight          # => 2
      # @api private
      class Sample
        # @return [Integer] number of ids that one in the sample stands for
        attr_reader :weight

        def initialize
          @weight = 1
        end

        # @param id [Integer]
        # @return [Boolean] whether a new id belongs to the sample
        def include?(id) = (id & (@weight - 1)).zero?

        # Drops half of the ids.
        # @return [void]
        def halve = @weight *= 2

        # @param id [Integer]
        # @return [Boolean] whether an id of the sample stays in it at the next halving
        def stays?(id) = (id & @weight).zero?

        # @return [Boolean] whether ids were dropped
        def partial? = @weight > 1
      end
    end
  end
end
