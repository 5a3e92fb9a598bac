# frozen_string_literal: true

# The tables of the servers benchmark: one for each row, the bars below it.
#
#   Bench::Servers::Report.new(rows:, results:, rounds: 3, seconds: 4.0, notes: []).markdown
require_relative "../bench/rows_report"
require_relative "bars"

module Bench
  class Servers
    class Report < RowsReport
      time = ->(figure) { ->(result) { Units.time(result.median(figure)) } }
      memory = ["memory", ->(result) { Units.bytes(result.median("memory")) }]
      bytes = ->(figure) { ->(result) { Units.bytes([result.median(figure), 0].max) } }

      COLUMNS = {
        saturated: [RATE, ["p50", time["p50"]], ["p99", time["p99"]], CPU, OBJECTS, ["system calls", ->(result) { Report.calls(result) }], memory],
        mixed: [RATE, ["p50 of the fast", time["p50"]], ["p99 of the fast", time["p99"]], ["p99 of the slow", time["slow_p99"]], CPU, OBJECTS, memory],
        beside_slow: [["peak/s", ->(result) { result.median("peak").round.to_s }], ["sent/s", ->(result) { result.median("rate").round.to_s }],
          ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]], ["p50 beside", time["p50"]], ["p99 beside", time["p99"]],
          ["sleeps/s", ->(result) { result.median("slow_rate").round.to_s }]],
        beside_busy: [RATE, ["p50 of those in", time["kept_p50"]], ["p99 of those in", time["kept_p99"]], ["p50 of the new", time["p50"]],
          ["p99 of the new", time["p99"]], CPU, memory],
        idle: [["memory before", bytes["memory"]], ["each, answered once", bytes["memory_each"]], ["each, answered twice", bytes["memory_again"]],
          ["answered again", ->(result) { result.median("answered_again").round.to_s }]]
      }.freeze

      # @param result [Result]
      # @return [String] system calls per request: in all, then the most frequent
      def self.calls(result)
        calls = result.samples.filter_map { |sample| sample["calls"] }.first or return ""
        most = calls.sort_by { |_, number| -number }.first(3).map { |name, number| "#{name} #{Units.count(number)}" }
        "#{Units.count(calls.values.sum)} (#{most.join(", ")})"
      end

      def initialize(results:, **)
        super
        @bars = Bars.new(results)
      end

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| @bars.of(row) }

      # @return [String]
      def markdown
        ["One worker process on one core, the client on another; median of #{@rounds} rounds of #{Units.time(@seconds)} each, " \
          "in a fresh process after a warm-up (± median deviation).\n" + in_turns,
          *@rows.map { |row| section(row) }, *list].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        {"" => chart("Requests per second: longer is better", ->(rate) { rate.round.to_s }) { |result| result.median("rate") },
         "-cpu" => chart("Processor time per request: shorter is better", Units.method(:time)) { |result| result.per_operation("cpu") }}.compact
      end

      private

      def in_turns
        titles = @rows.select(&:turns).map(&:id)
        return "" if titles.empty?
        "In #{titles.map { |title| "`#{title}`" }.join(", ")} all servers run at once and are asked in turns of #{Units.time(@seconds * TURN)}: " \
          "their differences are smaller than what the machine's pace changes by meanwhile.\n"
      end

      def section(row) = [super, *verdicts(row)].join("\n")

      # "processor time beside nginx's ≤ 1.4 ×: epoll 1.12 ✓, uring 1.2 ✓"
      def verdicts(row)
        lines = @bars.of(row).group_by { |bar| bar.title[/: (.*),/, 1] }.map do |what, bars|
          asked = bars.map { |bar| bar.fields[2] }.uniq.join(" and ")
          figures = bars.map { |bar| "#{bar.title[/(\w+)\z/]} #{bar.fields[1]} #{bar.pass? ? "✓" : "✗"}" }
          "- #{what} #{asked}: #{figures.join(", ")}\n"
        end
        lines.empty? ? [] : [lines.join]
      end

      def remarks(result)
        return super if result.failure
        sample = result.samples.first
        [("client-bound" if Bars.client_bound?(result)), *super, ("not streamed" if sample["streamed"] == false), sample["no_calls"]].compact
      end

      def list
        ["- \"Client-bound\": the client used over #{(Bars::CLIENT_BOUND * 100).round} % of its core; processor time per request decides there.\n",
          "- \"Not streamed\": the whole body was collected before its beginning was sent.\n",
          "- \"Disturbed\": other processes took over #{(DISTURBED * 100).round} % of the server's core.\n",
          "- In rows with waiting, Puma, Iodine and Agoo have #{Launch::WAITING_THREADS} threads and Itsi its fibers; else Puma has " \
            "#{Launch::THREADS} threads, the others one. NeverBlock has one configuration for all.\n",
          "- Memory is the server's proportional set size, when the row was done.\n",
          notes].join
      end
    end
  end
end
