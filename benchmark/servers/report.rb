# frozen_string_literal: true

# The tables of the servers benchmark: one for each row, the bars below it.
#
#   Bench::Servers::Report.new(rows:, results:, rounds: 3, seconds: 4.0).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class Servers
    class Report < RowsReport
      time = Figures.method(:time)
      bytes = Figures.method(:bytes)
      number = Figures.method(:number)
      memory = ["memory", bytes["memory"]]

      COLUMNS = {
        saturated: [RATE, ["p50", time["p50"]], ["p99", time["p99"]], CPU, OBJECTS, ["system calls", Figures.system_calls], memory],
        mixed: [RATE, ["p50 of the fast", time["p50"]], ["p99 of the fast", time["p99"]], ["p99 of the slow", time["slow_p99"]], CPU, OBJECTS, memory],
        beside_slow: [["peak/s", number["peak"]], ["sent/s", number["rate"]], ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]],
          ["p50 beside", time["p50"]], ["p99 beside", time["p99"]], ["sleeps/s", number["slow_rate"]]],
        beside_busy: [RATE, ["p50 of those in", time["kept_p50"]], ["p99 of those in", time["kept_p99"]], ["p50 of the new", time["p50"]],
          ["p99 of the new", time["p99"]], CPU, memory],
        idle: [["memory before", bytes["memory"]], ["each, answered once", bytes["memory_each"]], ["each, answered twice", bytes["memory_again"]],
          ["answered again", number["answered_again"]]]
      }.freeze

      def initialize(results:, **)
        super
        @bars = Bars.new(results)
      end

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| @bars.of(row) }

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        {"" => bar_chart("Requests per second: longer is better", rows: saturated) { |result| result.median("rate") },
         "-cpu" => bar_chart("Processor time per request: shorter is better", rows: saturated, unit: Units.method(:time)) { |result| result.per_operation("cpu") }}.compact
      end

      private

      def head
        "One worker process on one core, the client on another; median of #{@rounds} rounds of #{Units.time(@seconds)} each, " \
          "in a fresh process after a warm-up (± median deviation).\n" + in_turns
      end

      def in_turns
        titles = @rows.select(&:turns).map(&:id)
        return "" if titles.empty?
        "In #{titles.map { |title| "`#{title}`" }.join(", ")} all servers run at once and take turns of #{Units.time(@seconds * TURN)}: " \
          "their differences are smaller than the changes of the machine's pace.\n"
      end

      def section(row) = [super, *verdicts(row)].join("\n")

      # "processor time beside nginx's ≤ 1.4 ×: epoll 1.12 ✓, uring 1.2 ✓"
      def verdicts(row)
        lines = @bars.of(row).group_by { |bar| bar.title[/: (.*),/, 1] }.map do |what, bars|
          asked = bars.map { |bar| bar.fields[2] }.uniq.join(" and ")
          figures = bars.map { |bar| "#{bar.title[/(\w+)\z/]} #{bar.fields[1]} #{bar.pass? ? "✓" : "✗"}" }
          "#{what} #{asked}: #{figures.join(", ")}"
        end
        lines.empty? ? [] : [list(*lines)]
      end

      def remarks_of(result)
        return super if result.failure
        sample = result.samples.first
        [("client-bound" if Bars.client_bound?(result)), *super, ("not streamed" if sample["streamed"] == false), sample["no_calls"]].compact
      end
    end
  end
end
