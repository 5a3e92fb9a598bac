# frozen_string_literal: true

# The tables of the rails benchmark: one for each row.
#
#   Bench::Rails::Report.new(rows:, results:, rounds: 3, seconds: 1.0, notes: []).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class Rails
    class Report < RowsReport
      BESIDE = "puma 5" # what `rails new` comes nearest to

      time = ->(figure) { ->(result) { Units.time(result.median(figure)) } }
      number = ->(figure) { ->(result) { result.median(figure).round.to_s } }
      share = ->(figure) { ->(result) { format("%.2f ×", result.median(figure) / result.median("alone_p99")) } }
      held = [["PSS", ->(result) { Units.bytes(result.median("memory")) }], ["connections", number["connections"]]]

      COLUMNS = {
        saturated: [RATE, ["beside #{BESIDE}", ->(result, beside) { beside && format("%.2f ×", result.median("rate") / beside.median("rate")) }],
          ["p50", time["p50"]], ["p99", time["p99"]], CPU, OBJECTS, *held],
        mixed: [RATE, ["JSON p50", time["p50"]], ["p99", time["p99"]], ["waiting p50", time["sleep_p50"]], ["p99", time["sleep_p99"]],
          ["computing p50", time["cpu_p50"]], ["p99", time["cpu_p99"]], CPU, *held],
        beside: [["peak/s", number["peak"]], ["sent/s", number["rate"]], ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]],
          ["p99 beside queries", time["queries_p99"]], ["over alone", share["queries_p99"]], ["p99 beside ten of a second", time["seconds_p99"]],
          ["over alone", share["seconds_p99"]], ["of these/s", number["slept"]], *held],
        together: [["until all are answered", time["wall"]], *held],
        turns: [RATE, ["beside #{BESIDE}, turn by turn", ->(result, beside) { beside && format("%.2f ×", Servers::Turns.ratio(result, beside) { |turn| turn["rate"] }) }],
          ["p50", time["p50"]], ["p99", time["p99"]], CPU]
      }.freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@results).all

      # @return [String]
      def markdown
        ["One process on one core, the client and PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} for each row " \
          "(± median deviation). In each round every server serves all rows in one fresh process.\n",
          *@rows.map { |row| section(row) }, notes].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => chart("Requests per second: longer is better", ->(rate) { rate.round.to_s }) { |result| result.median("rate") }}.compact

      private

      # Some are told beside another server's.
      def value(field, result, row)
        beside = of(row).find { |other| other.cell.contestant.name == BESIDE && other.any? }
        field.call(*[result, beside].first(field.arity))
      end
    end
  end
end
