# frozen_string_literal: true

# The tables of the rails_sqlite benchmark: the figures, and their ratio to Puma's in the same turn.
#
#   Bench::RailsSqlite::Report.new(rows:, results:, rounds: 10, seconds: 3.0).markdown
require_relative "../bench/rows_report"

module Bench
  class RailsSqlite < Rails
    class Report < RowsReport
      time = Figures.method(:time)
      FIGURES = [RATE, CPU, ["page p50", time["p50"]], ["p99", time["p99"]], ["comment p50", time["write_p50"]], ["p99", time["write_p99"]],
        ["PSS", Figures.bytes("memory")]].freeze
      COLUMNS = {mixture: FIGURES, waiting: FIGURES}.freeze

      # Compared figures: by name, the access to a turn's figure, and which side of Puma's is better.
      RATIOS = {
        "requests per second" => [->(turn) { turn["rate"] }, :at_least],
        "processor time per request" => [->(turn) { turn["cpu"] / turn["operations"] }, :at_most],
        "page p50" => [->(turn) { turn["p50"] }, :at_most],
        "page p99" => [->(turn) { turn["p99"] }, :at_most],
        "comment p99" => [->(turn) { turn["write_p99"] }, :at_most],
        "PSS" => [->(turn) { turn["memory"] }, :at_most]
      }.freeze

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| peers(row).flat_map { |peer| RATIOS.map { |name, _| bar(row, name, peer) } } }

      private

      def head = "One process each on one core, the client on another; the median of #{@rounds} turns of #{Units.time(@seconds)} (± median deviation).\n"

      def ours(row) = of(row).find { |result| result.cell.contestant.library == "neverblock" }

      def peers(row) = of(row).reject { |result| result.cell.contestant.library == "neverblock" }

      def bar(row, name, peer)
        figure, kind = RATIOS.fetch(name)
        ratios = Servers::Turns.ratios(ours(row), peer, &figure)
        Bar.public_send(kind, "#{row.id}: #{name} beside #{peer.cell.contestant}", (Statistics.median(ratios) if ratios.any?), 1.0, unit: " ×",
          beside: ours(row)&.failure || peer.failure || interval(ratios))
      end

      # Rounded outward.
      def interval(ratios) = Statistics.interval(ratios)&.then { |range| format("%.2f to %.2f", range.begin.floor(2), range.end.ceil(2)) }
    end
  end
end
