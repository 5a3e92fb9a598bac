# frozen_string_literal: true

# The table of the scaling benchmark: a line for each thing, a column for each number of them, and the growth.
#
#   Bench::Scaling::Report.new(rows:, results:, rounds: 3).markdown
require_relative "../bench/report"

module Bench
  class Scaling
    class Report < Bench::Report
      # @param points [Hash{Numeric=>Numeric}] cost by number
      # @return [Float, nil] the slope of the line through the logarithms: 0 for a cost that doesn't depend on the number, 1
      #   for one that is proportional to it; nil: there are too few points
      def self.slope(points)
        points = points.select { |_, cost| cost.positive? }.map { |number, cost| [Math.log(number), Math.log(cost)] }
        return if points.size < 2
        x, y = points.transpose.map { |values| values.sum / values.size }
        points.sum { |a, b| (a - x) * (b - y) } / points.sum { |a, _| (a - x)**2 }
      end

      private

      def head = "Of each operation, median of #{@rounds} rounds, each in a fresh process. Growth: n^0 doesn't grow, n^1 is proportional.\n"

      def body = {"Processor time of the process" => "cpu", "Wall time" => "wall"}.flat_map { |title, figure| ["#{title}:\n", growth(figure)] }

      def growth(figure)
        counts = @rows.map(&:count).uniq.sort
        lines = @rows.group_by(&:thing).map do |thing, rows|
          costs = rows.to_h { |row| [row.count, of(row).find(&:any?)&.per_operation(figure)] }.compact
          slope = self.class.slope(costs)
          [thing.title, *counts.map { |count| costs[count] ? Units.time(costs[count]) : Figures::NONE }, slope ? format("n^%.2f", slope) : Figures::NONE]
        end
        Markdown.table(["", *counts.map(&:to_s), "growth"], lines)
      end
    end
  end
end
