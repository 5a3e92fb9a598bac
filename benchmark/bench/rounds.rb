# frozen_string_literal: true

# Measures every cell once per round, so that whatever disturbs the machine for a
# while disturbs all contestants alike. Within a round the contestants of one row
# follow each other, beginning with another one each time.
#
#   results = Bench::Rounds.measure(cells, rounds: 5)
#   results.first.median("wall")
require_relative "failure"
require_relative "progress"
require_relative "result"

module Bench
  class Rounds
    # With a progress of its own.
    # @return [Array<Result>] one for each cell, in their order
    def self.measure(cells, rounds:)
      progress = Progress.new(cells.size * rounds)
      new(cells, rounds:, progress:).call.tap { progress.finish }
    end

    # @param cells [Array<Cell>]
    # @param rounds [Integer]
    # @param progress [Progress]
    def initialize(cells, rounds:, progress:)
      @results = cells.map { |cell| Result.new(cell) }
      @rounds = rounds
      @progress = progress
    end

    # @return [Array<Result>] one for each cell, in their order
    def call
      rows = @results.group_by { |result| result.cell.row }
      @rounds.times do |round|
        rows.each_value do |row|
          row.rotate(round % row.size).each { |result| measure(result, round) }
        end
      end
      @results
    end

    private

    # A failed cell is not tried again: its row has the reason.
    def measure(result, round)
      cell = result.cell
      @progress.step("round #{round + 1}/#{@rounds}: #{cell.row}, #{cell.contestant}") do
        result.samples << cell.measure unless result.failure
      rescue Failure => error
        result.failure = error.message
      end
    end
  end
end
