# frozen_string_literal: true

# The few statistics the benchmarks use.
#
#   Bench::Statistics.median([3, 1, 2])      # => 2
#   Bench::Statistics.spread([3, 1, 2])      # => 0.5
module Bench
  module Statistics
    module_function

    # @param values [Array<Numeric>] at least one
    # @return [Numeric] the one in the middle, or the mean of the two there
    # @raise [ArgumentError] if there is no value
    def median(values)
      raise ArgumentError, "the median of no values was asked for; give at least one" if values.empty?
      sorted = values.sort
      middle = sorted.size / 2
      sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
    end

    # By their order alone, whatever they are distributed like: the chance that the true median lies outside is that of as
    # many heads among as many coins.
    # @param values [Array<Numeric>]
    # @param doubt [Float] the chance that is allowed
    # @return [Range, nil] in which the median lies; nil where there are too few to tell
    def interval(values, doubt: 0.05)
      outside = 0.0
      left = (0...values.size).find do |heads|
        outside += (1..heads).inject(1.0) { |ways, i| ways * (values.size - i + 1) / i } / 2**values.size
        outside * 2 > doubt
      end
      sorted = values.sort
      sorted[left - 1]..sorted[-left] if left&.positive?
    end

    # @param values [Array<Numeric>] at least one
    # @return [Float] the median distance from the median, as a share of the median
    def spread(values)
      center = median(values)
      return 0.0 if center == 0
      median(values.map { |value| (value - center).abs }).fdiv(center)
    end
  end
end
