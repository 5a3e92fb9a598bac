# frozen_string_literal: true

module NeverBlockTest
  # What a soak test learns from its @samples: hashes with the same keys, one before all rounds and one after each.
  module Sampled
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
