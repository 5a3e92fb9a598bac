# frozen_string_literal: true

# The tables of the rails_workloads benchmark, and the graph of throughput against concurrency.
#
#   Bench::RailsWorkloads::Report.new(rows:, results:, rounds: 3, seconds: 1.0, notes: []).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class RailsWorkloads < Rails
    class Report < RowsReport
      time = ->(figure) { ->(result, _row) { Units.time(result.median(figure)) } }

      COLUMNS = {
        workload: [
          ["until all are answered", ->(result, _row) { format("%.2f s", result.median("wall")) }],
          ["requests/s", ->(result, _row) { result.median("rate").round.to_s }],
          ["of the limit", ->(result, row) { format("%.2f", Bars.share(row, result)) }],
          ["p50 of the fast", time["p50"]], ["p99", time["p99"]], ["p50 of the sleeping", time["slow_p50"]], ["longest", time["slow_longest"]],
          ["CPU per request", ->(result, _row) { Units.time(result.per_operation("cpu")) }],
          ["PSS", ->(result, _row) { Units.bytes(result.median("memory")) }],
          ["backends", ->(result, _row) { result.median("backends").round.to_s }]
        ]
      }.freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@rows, @results).all

      # @return [String]
      def markdown
        ["#{REQUESTS} requests; median of #{@rounds} rounds. In each round every server serves all rows in one fresh start.\n",
          *@rows.map { |row| section(row) }, notes].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        rows = @rows.select { |row| row.every == CURVE }.sort_by(&:concurrency)
        results = rows.flat_map { |row| of(row).select(&:any?).map { |result| [result.cell.contestant, row.concurrency, result.median("rate")] } }
        series = results.group_by(&:first).to_h { |contestant, points| [contestant.name, points.to_h { |_, concurrency, rate| [concurrency, rate] }] }
        return {} if rows.size < 2 || series.empty?
        {"" => Svg.lines("One request in #{CURVE} sleeps for a second", series, colors: results.to_h { |contestant,| [contestant.name, contestant.color] },
          x: "requests at once", y: "requests per second", unit: ->(rate) { rate.round.to_s }, log: true)}
      end

      private

      def value(field, result, row) = field.call(result, row)
    end
  end
end
