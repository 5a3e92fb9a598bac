# frozen_string_literal: true

# The tables of the proxy benchmark: one for each row, and the bars.
#
#   Bench::Proxy::Report.new(rows:, results:, rounds: 3, seconds: 2.0).markdown
require_relative "../bench/rows_report"
require_relative "../servers/turns"

module Bench
  class Proxy
    class Report < RowsReport
      time = Figures.method(:time)
      bytes = Figures.method(:bytes)
      number = Figures.method(:number)

      COLUMNS = {
        saturated: [RATE, ["p50", time["p50"]], ["p99", time["p99"]], CPU, ["beside nginx", :beside], ["system calls", Figures.system_calls], ["memory", bytes["memory"]]],
        idle: [["memory before", bytes["memory"]], ["each, asked once", bytes["memory_each"]], ["each, asked twice", bytes["memory_again"]], ["asked again", number["answered_again"]]],
        stampede: [["requests to the origin", number["asked"]], ["p50", time["p50"]], ["p99", time["p99"]], ["last", time["longest"]], CPU, ["memory for each", bytes["memory_each"]]]
      }.freeze

      # @return [Array<Bar>]
      def bars
        @rows.select(&:limit).flat_map do |row|
          ours(row).map do |result|
            ratio = beside_nginx(result, row)
            Bar.at_most("#{row.id}: processor time beside nginx's, #{result.cell.contestant}", ratio, row.limit, unit: " ×", beside: result.failure)
          end
        end
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => bar_chart("Processor time per request: shorter is better", rows: saturated, unit: Units.method(:time)) { |result| result.per_operation("cpu") }}.compact

      private

      def head
        "One process on one core; the clients and the origin, an nginx that returns a text, on the other. wrk: #{@rounds} rounds; in each, all proxies of a row run " \
          "at once and take turns of #{Units.time(@seconds * TURN)}. The rest: #{@rounds} rounds, each in a fresh process. Medians.\n"
      end

      def ours(row) = of(row).select { |result| result.cell.contestant.library == "neverblock" }

      def value(figure, result, row)
        return super unless figure == :beside
        beside_nginx(result, row)&.then { |ratio| format("%.2f ×", ratio) } || Figures::NONE
      end

      # Turn by turn: the machine's pace changes from one to the next.
      def beside_nginx(result, row)
        nginx = find(row, "nginx")
        Servers::Turns.ratio(result, nginx) { |turn| turn["cpu"].fdiv(turn["operations"]) } if nginx&.any? && result.any?
      end

      def remarks_of(result)
        asked = result.median("asked") if result.cell.id == "hit"
        [*super, ("the origin was asked #{asked.round} times" if asked && asked > 1)].compact
      end
    end
  end
end
