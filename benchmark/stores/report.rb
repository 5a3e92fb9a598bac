# frozen_string_literal: true

# The tables of the stores benchmark: a line for each operation, a column for each contestant.
#
#   Bench::Stores::Report.new(rows:, results:, rounds: 1).markdown
require_relative "../bench/report"
require_relative "row"

module Bench
  class Stores
    class Report < Bench::Report
      TABLES = {"Operations per second" => Figures.steady("rate"), "Processor time of the process for each" => Figures.time_each("cpu")}.freeze

      def initialize(**options) = super(**options, tables: TABLES, ratios: {"Wall time" => "wall", "Processor time" => "cpu"})

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => bar_chart("Operations per second: longer is better", rows: @rows.reject(&:each_once?)) { |result| result.median("rate") }}.compact

      private

      def head = "One process on one core, with YJIT; the stores on another; median of #{@rounds} rounds, each in a fresh process.\n"
    end
  end
end
