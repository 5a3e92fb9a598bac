# frozen_string_literal: true

module NeverBlockTest
  # What a soak test learns from its @samples: hashes with the same keys, one before all rounds and one after each.
  module Sampled
    # What comes and goes leaks if there is always more of it in the second half than in the first. (Connections past a
    # pooler are descriptors that no statistics count.)
    # @param keys [Array<String>]
    # @return [Hash{String=>Array(Integer, Integer)}] for each, the most of the first half and the least of the second
    def settled(*keys)
      first, second = @samples.drop(1).each_slice((@samples.size / 2.0).ceil).to_a
      keys.to_h { |key| [key, [first.map { |sample| sample[key] }.max, (second || first).map { |sample| sample[key] }.min]] }
    end

    # How much more was held at the end than in the middle.
    # @param key [String] "pss", "objects", …
    # @return [Numeric] the median of the last quarter's samples, less that of the second quarter's
    def growth(key) = median(key, -quarter..) - median(key, quarter...(2 * quarter))

    # @return [Numeric]
    def median(key, range) = @samples[range].map { |sample| sample[key] }.sort.then { |values| values[values.size / 2] }

    private

    def quarter = [@samples.size / 4, 1].max
  end
end
