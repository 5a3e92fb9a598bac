# frozen_string_literal: true

# What every report with rows knows: what was measured, how often, and what is to be told beside it.
#
#   class Tables < Bench::Report
#     def bars = []
#     def charts = {}
#     def markdown = [*@rows.map(&:title), notes].join("\n")
#   end
#   Tables.new(rows:, results:, rounds: 3, seconds: 1.0, notes: ["PostgreSQL 17."]).to_h
module Bench
  class Report
    # @param rows [Array<#id, #title>]
    # @param results [Array<Result>]
    # @param rounds [Integer]
    # @param seconds [Numeric, nil] of each measurement, where it is one of a time
    # @param notes [Array<String>]
    def initialize(rows:, results:, rounds:, notes:, seconds: nil)
      @rows = rows
      @results = results
      @rounds = rounds
      @seconds = seconds
      @notes = notes
    end

    # @return [Hash] for JSON
    def to_h = {rounds: @rounds, seconds: @seconds, notes: @notes, results: @results.map(&:to_h)}.compact

    private

    # @param more [Array<String>]
    # @return [String] a list
    def notes(*more) = [*@notes, *more].map { |note| "- #{note.tr("|\n", "/ ")}\n" }.join
  end
end
