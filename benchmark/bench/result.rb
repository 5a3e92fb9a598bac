# frozen_string_literal: true

# All measurements of one cell.
#
#   result.per_operation("wall")     # => 4.1e-7, the median over the rounds, in seconds
#   result.failure                   # => nil, or why there are none
require_relative "statistics"

module Bench
  class Result
    attr_reader :cell, :samples
    attr_accessor :failure

    # @param cell [Cell]
    def initialize(cell)
      @cell = cell
      @samples = []
    end

    # @return [Boolean] whether there are figures
    def any? = !@samples.empty? && !failure

    # @return [String, nil] which of all failed, and why
    def trouble = failure && "#{cell.row}, #{cell.contestant}: #{failure}"

    # @param figure [String] such as "wall"
    # @return [Numeric, nil] its median over the rounds
    def median(figure)
      values = @samples.filter_map { |sample| sample[figure] }
      Statistics.median(values) unless values.empty? || failure
    end

    # @param figure [String] one that is not measured in each round
    # @return [Object, nil]
    def latest(figure) = @samples.filter_map { |sample| sample[figure] }.last

    # @param figure [String]
    # @return [Numeric, nil] the median of the figure divided by the operations
    def per_operation(figure)
      values = shares(figure)
      Statistics.median(values) unless values.empty? || failure
    end

    # @param figure [String]
    # @return [Float, nil] how far the rounds lie from the median, as a share of it
    def spread(figure)
      values = shares(figure)
      Statistics.spread(values) unless values.empty? || failure
    end

    # @param figure [String]
    # @return [Array<Float>] of each round that has it, divided by the operations
    def shares(figure) = @samples.filter_map { |sample| sample[figure]&.fdiv(sample["operations"]) }

    # @return [Hash] for JSON
    def to_h
      {row: cell.row, contestant: cell.contestant.name, **cell.traits, failure:, samples:}.compact
    end
  end
end
