# frozen_string_literal: true

# The tables of the fibers benchmark.
#
#   Bench::Fibers::Report.new(rows:, results:, rounds: 3).markdown
require_relative "../bench/report"

module Bench
  class Fibers
    class Report < Bench::Report
      FOUNDING = "In 2008, on a notebook of then: threads ended at 3,070; 100,000 fibers took 203 s and 500 MB.\n"

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        @rows.group_by(&:workload).flat_map { |workload, rows|
          [["-#{workload}-time", chart("Time until all are #{workload}", rows, Units.method(:time)) { |_, result| result.median("wall") }],
            ["-#{workload}-memory", chart("Memory when all are #{workload}", rows, Units.method(:bytes)) { |row, result| result.median("memory") * row.count }]]
        }.to_h.compact
      end

      private

      def head = "Time for all, median of #{@rounds} rounds.\n"

      def body
        counts = @rows.to_h { |row| [row.id, row.count] }
        [table(&Figures.time("wall")),
          "Memory for all, page tables included.\n", table { |result| Units.bytes([result.median("memory") * counts.fetch(result.cell.id), 0].max) },
          "Memory for each.\n", table(&Figures.bytes("memory")),
          FOUNDING]
      end

      # A point with nothing measurable (few, on pages that were there) has no place on a logarithmic axis.
      def chart(title, rows, unit)
        points = rows.flat_map { |row| of(row).select(&:any?).map { |result| [result.cell.contestant.name, row.count, yield(row, result)] } }
        series = points.select { |_, _, value| value > 0 }.group_by(&:first).transform_values { |same| same.to_h { |_, count, value| [count, value] } }
        Svg.lines("#{title}: lower is better", series, log: true, x: "how many", y: "", unit:, colors:) if series.any?
      end
    end
  end
end
