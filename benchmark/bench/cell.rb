# frozen_string_literal: true

# One field of a benchmark's table: a row, a contestant, and how it is measured.
#
#   cell = Bench::Cell.new("queue hop", contestant) { child.result }
#   cell.measure       # => {"operations"=>..., "wall"=>...}
module Bench
  class Cell
    attr_reader :row, :contestant, :traits

    # @param row [String]
    # @param contestant [Contestant]
    # @param traits [Hash] further properties that distinguish it, for the report
    # @yieldreturn [Hash{String=>Object}] the figures of one measurement
    def initialize(row, contestant, **traits, &measure)
      @row = row
      @contestant = contestant
      @traits = traits
      @measure = measure
    end

    # @return [String] of the row, which may have another name than those that are measured in turns
    def id = traits.fetch(:id, row)

    # @return [Hash{String=>Object}]
    # @raise [Failure] where it could not be measured
    def measure = @measure.call
  end
end
