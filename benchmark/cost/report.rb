# frozen_string_literal: true

# The tables of the cost benchmark.
#
#   Bench::Cost::Report.new(rows:, results:, rounds: 10, seconds: 0.3).markdown
require_relative "../bench/report"
require_relative "../database/report"
require_relative "row"
require_relative "verdict"

module Bench
  class Cost
    class Report < Bench::Report
      # The costs of one operation, for each contestant.
      PROFILE = {
        "objects" => Figures.count_each("objects"),
        "collector" => Figures.time_each("collecting"),
        "waits" => Figures.count_each("switches"),
        "calls" => ->(result) { result.latest("calls")&.then { |number| Units.count(number) } },
        "system calls" => Figures.system_calls
      }.freeze

      # @return [Hash] for JSON
      def to_h = {**super, rows: @rows.map { |row| {id: row.id, **others.to_h { |name| [name, verdict(row, name)&.to_h] }} }}

      private

      # Each row is judged in the tables, with its interval; there are no bars besides.
      def head
        "One process each on one core, with YJIT, which stays for all rounds; PostgreSQL on another; #{@rounds} paired rounds of #{Units.time(@seconds)} in turns. " \
          "Of each figure the median, of each ratio the mean and the interval of 95 %.\n"
      end

      def body
        ["#{passed.count(true)} of #{passed.size} rows pass: processor time at most #{MOST_CPU} ×, rate at least #{LEAST_RATE} × the stock pool's; the interval reaches that, " \
           "and the median misses it by #{(Ratio::SLACK * 100).round} % at most.\n",
          *@rows.group_by(&:layer).values.map { |rows| section(rows) }]
      end

      def remarks = [*failures, Database::Report::MARKS]

      def names = @names ||= contestants.map(&:name)

      def ours = names.first

      def others = names.drop(1)

      def stock = others.first

      def verdict(row, other) = Verdict.of(find(row, ours), find(row, other))

      def passed = @passed ||= @rows.map { |row| verdict(row, stock)&.pass? || false }

      def section(rows)
        ["### #{Database::LAYERS.fetch(rows.first.layer)}\n",
          Markdown.table(["", *names, *others.flat_map { |name| ["processor time beside #{name}", "rate beside #{name}"] }, ""], rows.map { |row| cost(row) }),
          "Of each operation: objects, time of the collector, how often the process gave its core away#{", calls of methods, system calls" if profiled?}.\n",
          Markdown.table(["", *PROFILE.keys.select { |figure| profiled?(figure) }.flat_map { |figure| names.map { |name| "#{figure}, #{name}" } }], rows.map { |row| profile(row) })].join("\n")
      end

      def cost(row)
        ratios = others.flat_map { |name| verdict(row, name)&.then { |verdict| [verdict.cpu.to_s, verdict.rate.to_s] } || [Figures::NONE] * 2 }
        ["`#{row.id}`", *names.map { |name| time(find(row, name)) }, *ratios, verdict(row, stock)&.pass? ? "pass" : "**short**"]
      end

      def time(result) = field(result) { "#{Units.time(result.per_operation("cpu"))}, #{rate(result)}/s#{Database::Report.marks(result)}" }

      def rate(result) = (1 / result.per_operation("wall")).round

      def profile(row)
        figures = PROFILE.select { |figure, _| profiled?(figure) }.values
        ["`#{row.id}`", *figures.flat_map { |figure| names.map { |name| field(find(row, name)) { |result| figure.call(result) || Figures::NONE } } }]
      end

      # Whether there is anything of it.
      def profiled?(figure = "calls") = @results.any? { |result| result.any? && PROFILE.fetch(figure).call(result) }
    end
  end
end
