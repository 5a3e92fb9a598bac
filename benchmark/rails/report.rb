# frozen_string_literal: true

# The tables of the rails benchmark: one for each row.
#
#   Bench::Rails::Report.new(rows:, results:, rounds: 3, seconds: 1.0).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class Rails
    class Report < RowsReport
      BESIDE = "puma 5" # the closest to `rails new`

      time = Figures.method(:time)
      number = Figures.method(:number)
      share = ->(figure) { ->(result) { format("%.2f ×", result.median(figure) / result.median("alone_p99")) } }
      held = [["PSS", Figures.bytes("memory")], ["connections", number["connections"]]]

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

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => bar_chart("Requests per second: longer is better", rows: saturated) { |result| result.median("rate") }}.compact

      private

      def head
        "One process on one core, the client and PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} for each row " \
          "(± median deviation). In each round every server serves all rows in one fresh process.\n"
      end

      # Some are told beside another server's.
      def value(figure, result, row)
        beside = find(row, BESIDE)
        figure.call(*[result, (beside if beside&.any?)].first(figure.arity))
      end
    end
  end
end
