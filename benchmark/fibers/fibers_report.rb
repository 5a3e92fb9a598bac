# frozen_string_literal: true

# The tables of the fibers benchmark.
#
#   FibersReport.new(results:, rounds: 3, notes: []).markdown
require_relative "../bench/contestant"
require_relative "../bench/markdown"
require_relative "../bench/svg"
require_relative "../bench/units"

module Bench
  class FibersReport
    # @param results [Array<Result>]
    # @param rounds [Integer]
    # @param notes [Array<String>]
    def initialize(results:, rounds:, notes:)
      @results = results
      @rounds = rounds
      @notes = notes
    end

    # @return [Array<Bar>] none: this scene has no bar
    def bars = []

    # @return [String]
    def markdown
      [
        "Time for all, median of #{@rounds} rounds.\n",
        table { |result| Units.time(result.median("wall")) },
        "Memory for all, page tables included.\n",
        table { |result| Units.bytes(total_memory(result)) },
        "Memory for each.\n",
        table { |result| Units.bytes(result.median("memory")) },
        "In 2008, on a notebook of that time: threads ended at 3,070; 100,000 fibers took 203 s and 500 MB.\n",
        [*@notes, *@results.filter_map(&:trouble)].map { |note| "- #{note}\n" }.join
      ].join("\n")
    end

    # @return [Hash{String=>String}] by the suffix of the file's name
    def charts
      workloads = @results.map { |result| result.cell.traits[:workload] }.uniq
      workloads.flat_map { |workload|
        [["-#{workload}-time", chart("Time until all are #{workload}", workload, Units.method(:time)) { |result| result.median("wall") }],
          ["-#{workload}-memory", chart("Memory when all are #{workload}", workload, Units.method(:bytes)) { |result| total_memory(result) }]]
      }.to_h.compact
    end

    # @return [Hash] for JSON
    def to_h = {rounds: @rounds, notes: @notes, results: @results.map(&:to_h)}

    private

    def total_memory(result) = result.median("memory") * result.cell.traits[:count]

    def contestants = @results.map { |result| result.cell.contestant }.uniq

    def table
      rows = @results.group_by { |result| result.cell.row }.map do |row, results|
        [row, *contestants.map { |contestant|
          result = results.find { |candidate| candidate.cell.contestant == contestant }
          next "" unless result
          result.any? ? yield(result) : "failed"
        }]
      end
      Markdown.table(["", *contestants.map(&:name)], rows)
    end

    # A point with nothing measurable (few, on pages that were there) has no place on a logarithmic axis.
    def chart(title, workload, unit)
      chosen = @results.select { |result| result.cell.traits[:workload] == workload && result.any? }
      series = chosen.group_by { |result| result.cell.contestant.name }.to_h do |name, results|
        [name, results.to_h { |result| [result.cell.traits[:count], yield(result)] }.select { |_, value| value > 0 }]
      end
      series.reject! { |_, points| points.empty? }
      return if series.empty?
      Svg.lines("#{title}: lower is better", series, log: true, x: "how many", y: "", unit:,
        colors: Contestant.all.to_h { |contestant| [contestant.name, contestant.color] })
    end
  end
end
