# frozen_string_literal: true

# The tables of the rails_workloads benchmark, and the graph of throughput against concurrency.
#
#   Bench::RailsWorkloads::Report.new(rows:, results:, rounds: 3, seconds: 1.0).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class RailsWorkloads < Rails
    class Report < RowsReport
      time = Figures.method(:time)

      COLUMNS = {
        workload: [
          ["until all are answered", Figures.seconds("wall")],
          ["requests/s", Figures.number("rate")],
          ["of the limit", ->(result, row) { format("%.2f", Bars.share(row, result)) }],
          ["p50 of the fast", time["p50"]], ["p99", time["p99"]], ["p50 of the sleeping", time["slow_p50"]], ["longest", time["slow_longest"]],
          CPU,
          ["PSS", Figures.bytes("memory")],
          ["backends", Figures.number("backends")]
        ]
      }.freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@rows, @results).all

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        rows = @rows.select { |row| row.every == CURVE }.sort_by(&:concurrency)
        series = rows.flat_map { |row| of(row).select(&:any?).map { |result| [result.cell.contestant.name, row.concurrency, result.median("rate")] } }
          .group_by(&:first).transform_values { |points| points.to_h { |_, concurrency, rate| [concurrency, rate] } }
        return {} if rows.size < 2 || series.empty?
        {"" => Svg.lines("One request in #{CURVE} sleeps for a second", series, colors:,
          x: "requests at once", y: "requests per second", unit: ->(rate) { rate.round.to_s }, log: true)}
      end

      private

      def head = "#{REQUESTS} requests; median of #{@rounds} rounds. In each round every server serves all rows in one fresh start.\n"
    end
  end
end
