# frozen_string_literal: true

# How many times a figure is another one that was measured beside it, over paired rounds, with the interval in which it is to 95 %:
# that of Student's t for the mean of the logarithms.
#
#   ratio = Bench::Ratio.of([9.0, 8.8, 9.4], [10.0, 9.9, 10.1])
#   ratio.to_s                # => "0.91 (0.86–0.96)"
#   ratio.within?(1.0)        # => true
require_relative "statistics"

module Bench
  Ratio = Data.define(:mean, :low, :high, :median) do
    # @param ours [Array<Numeric>] one for each round, above zero
    # @param theirs [Array<Numeric>] of the same rounds
    # @return [Ratio]
    # @raise [ArgumentError] where there are fewer than two pairs
    def self.of(ours, theirs)
      raise ArgumentError, "an interval takes two rounds; there is #{ours.size}" if ours.size < 2
      logs = ours.zip(theirs).map { |mine, other| Math.log(mine.fdiv(other)) }
      mean = logs.sum / logs.size
      deviation = Math.sqrt(logs.sum { |log| (log - mean)**2 } / (logs.size - 1))
      reach = self::T[logs.size - 2] * deviation / Math.sqrt(logs.size)
      new(*[mean, mean - reach, mean + reach, Statistics.median(logs)].map { |log| Math.exp(log) })
    end

    # @param mine [Result, nil]
    # @param other [Result, nil] of the same rounds
    # @param figure [String] of one operation
    # @return [Ratio, nil] nil where one of them was not measured in two rounds
    def self.between(mine, other, figure)
      of(mine.shares(figure), other.shares(figure)) if [mine, other].all? { |result| result&.any? && result.samples.size > 1 }
    end

    # A bar holds if the interval reaches the limit and the median misses by SLACK at most.
    # @param limit [Float]
    # @param least [Boolean] whether more is better
    # @return [Boolean]
    def within?(limit, least: false)
      least ? high >= limit && median >= limit * (1 - self.class::SLACK) : low <= limit && median <= limit * (1 + self.class::SLACK)
    end

    def to_s = format("%.2f (%.2f–%.2f)", mean, low, high)
  end

  Ratio::SLACK = 0.02

  # The quantiles of 97.5 % for one degree of freedom and more; for still more, the last is on the safe side.
  Ratio::T = Hash.new(2.09).merge!([12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09].each_with_index.to_h { |t, index| [index, t] }).freeze
end
