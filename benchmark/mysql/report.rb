# frozen_string_literal: true

# The tables of the mysql benchmark: a line for each operation, distance and number of fibers, a column for each contestant;
# and each contestant beside the stock adapter in as many threads as it has connections.
#
#   Bench::Mysql::Report.new(rows:, results:, rounds: 3, seconds: 0.5).markdown
require_relative "../bench/report"
require_relative "../database/report"
require_relative "bars"

module Bench
  class Mysql
    class Report < Bench::Report
      MARKS = Database::Report::MARKS.sub("PostgreSQL", "MariaDB")

      FIGURES = {
        "Operations per second" => ->(result) { "#{Figures.steady("rate").call(result)}#{Database::Report.marks(result)}" },
        "Processor time of the process for each" => Figures.time_each("cpu"),
        "How long each takes, p50 and p99" => ->(result) { %w[p50 p99].map { |figure| Figures.time(figure).call(result) }.join(", ") },
        "Connections at most" => Figures.number("backends")
      }.freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@results).all

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        {"" => bar_chart("Operations per second, 1,000 fibers: longer is better", rows: closed.select { |row| row.fibers == 1000 }) { |result| result.median("rate") }}.compact
      end

      private

      def head = "One process on one core, with YJIT; MariaDB on another; median of #{@rounds} rounds of #{Units.time(@seconds)} (± median deviation), each in a fresh process after a warm-up.\n"

      def body
        sleeps = @rows.select(&:sleeps?)
        [*(tables if closed.any?), *sleeps.flat_map { |row| ["Until all are done:\n", table([row], contestants: of(row).map { |result| result.cell.contestant }, &Figures.seconds("wall"))] }]
      end

      def remarks = [MARKS, *failures]

      def closed = @rows.reject(&:sleeps?)

      # Threads are measured once for all numbers of fibers.
      def of(row) = [row, *(row.with(fibers: nil) if row.fibers)].flat_map { |measured| results_of(measured.id) }

      def tables
        [*FIGURES.flat_map { |title, figure| ["#{title}:\n", table(closed, &figure)] },
          "Rate, times that of the stock adapter in as many threads as connections, with the interval of 95 %:\n", beside_stock { |mine, stock| Ratio.between(stock, mine, "wall") },
          "Processor time, times that of the same:\n", beside_stock { |mine, stock| Ratio.between(mine, stock, "cpu") }]
      end

      # In paired rounds.
      def beside_stock
        compared = contestants.reject { |contestant| contestant.name == Mysql.stock(contestant) }
        lines = closed.map do |row|
          [row.title, *compared.map { |contestant| yield(find(row, contestant.name), find(row, Mysql.stock(contestant))) || Figures::NONE }]
        end
        Markdown.table(["", *compared.map { |contestant| "#{contestant}, beside #{Mysql.stock(contestant)}" }], lines)
      end
    end
  end
end
