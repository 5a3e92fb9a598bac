# frozen_string_literal: true

# The tables of the cost benchmark.
#
#   Bench::Cost::Report.new(rows:, results:, rounds: 10, seconds: 0.3, notes: []).markdown
require_relative "../bench/markdown"
require_relative "../bench/report"
require_relative "../bench/units"
require_relative "../database/report"
require_relative "row"
require_relative "verdict"

module Bench
  class Cost
    class Report < Bench::Report
      # What one operation takes, of each contestant.
      PROFILE = {
        "objects" => ->(result) { Units.count(result.per_operation("objects")) },
        "collector" => ->(result) { Units.time(result.per_operation("collecting")) },
        "waits" => ->(result) { Units.count(result.per_operation("switches")) },
        "calls" => ->(result) { result.median("calls")&.then { |number| Units.count(number) } },
        "system calls" => ->(result) { result.samples.last["system_calls"]&.then { |calls| Report.system_calls(calls) } }
      }.freeze
      MOST = 4 # system calls that are named

      # @param calls [Hash{String=>Float}] by name
      # @return [String] in all, then the most frequent
      def self.system_calls(calls)
        most = calls.max_by(MOST, &:last).map { |name, number| "#{name} #{Units.count(number)}" }
        "#{Units.count(calls.values.sum)} (#{most.join(", ")})"
      end

      # Each row is one, and judged with its interval, in the tables.
      def bars = []

      def charts = {}

      # @return [String]
      def markdown
        ["One process each on one core, with YJIT, which stays for all rounds; PostgreSQL on another; #{@rounds} paired rounds of #{Units.time(@seconds)} in turns. " \
           "Of each figure the median, of each ratio the mean and the interval of 95 %.\n",
          "#{passed.count(true)} of #{passed.size} rows pass: processor time at most #{MOST_CPU} ×, rate at least #{LEAST_RATE} × the stock pool's; the interval reaches that, " \
            "and the median misses it by #{(Ratio::SLACK * 100).round} % at most.\n",
          *@rows.group_by(&:layer).values.map { |rows| section(rows) },
          notes(*failures, Database::Report::MARKS)].join("\n")
      end

      # @return [Hash] for JSON
      def to_h = {**super, rows: @rows.map { |row| {id: row.id, **others.to_h { |name| [name, verdict(row, name)&.to_h] }} }}

      private

      def contestants = @contestants ||= @results.map { |result| result.cell.contestant.name }.uniq

      def ours = contestants.first

      def others = contestants.drop(1)

      def stock = others.first

      def of(row, name) = @results.find { |result| result.cell.traits[:id] == row.id && result.cell.contestant.name == name }

      def verdict(row, other) = Verdict.of(of(row, ours), of(row, other))

      def passed = @rows.map { |row| verdict(row, stock)&.pass? || false }

      def section(rows)
        ["### #{Database::LAYERS.fetch(rows.first.layer)}\n",
          Markdown.table(["", *contestants, *others.flat_map { |name| ["processor time beside #{name}", "rate beside #{name}"] }, ""], rows.map { |row| cost(row) }),
          "Of each operation: objects, time of the collector, how often the process gave its core away#{", calls of methods, system calls" if profiled?}.\n",
          Markdown.table(["", *PROFILE.keys.select { |figure| profiled?(figure) }.flat_map { |figure| contestants.map { |name| "#{figure}, #{name}" } }], rows.map { |row| profile(row) })].join("\n")
      end

      def cost(row)
        ratios = others.flat_map { |name| verdict(row, name)&.then { |verdict| [verdict.cpu.to_s, verdict.rate.to_s] } || ["–", "–"] }
        ["`#{row.id}`", *contestants.map { |name| time(of(row, name)) }, *ratios, verdict(row, stock)&.pass? ? "pass" : "**short**"]
      end

      def time(result) = result.any? ? "#{Units.time(result.per_operation("cpu"))}, #{rate(result)}/s#{Database::Report.marks(result)}" : "–"

      def rate(result) = (1 / result.per_operation("wall")).round

      def profile(row)
        figures = PROFILE.select { |figure, _| profiled?(figure) }.values
        ["`#{row.id}`", *figures.flat_map { |figure| contestants.map { |name| of(row, name).then { |result| (result.any? && figure.call(result)) || "–" } } }]
      end

      # Whether there is anything of it.
      def profiled?(figure = "calls") = @results.any? { |result| result.any? && PROFILE.fetch(figure).call(result) }

      def failures = @results.filter_map(&:trouble)
    end
  end
end
