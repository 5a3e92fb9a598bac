# frozen_string_literal: true

# The tables of the servers benchmark: one for each row, the bars below it.
#
#   Bench::Servers::Report.new(rows:, results:, rounds: 3, seconds: 4.0, notes: []).markdown
require_relative "../bench/contestant"
require_relative "../bench/markdown"
require_relative "../bench/statistics"
require_relative "../bench/svg"
require_relative "../bench/units"
require_relative "bars"

module Bench
  class Servers
    class Report
      DISTURBED = 0.1 # of the server's core, taken by others

      RATE = ["requests/s", ->(result) { "#{result.median("rate").round} ±#{(Statistics.spread(result.samples.map { |sample| sample["rate"] }) * 100).round} %" }].freeze
      time = ->(figure) { ->(result) { Units.time(result.median(figure)) } }
      cpu = ["CPU per request", ->(result) { Units.time(result.per_operation("cpu")) }]
      objects = ["objects", ->(result) { result.per_operation("objects")&.then { |number| Units.count(number) } }]
      memory = ["memory", ->(result) { Units.bytes(result.median("memory")) }]
      bytes = ->(figure) { ->(result) { Units.bytes([result.median(figure), 0].max) } }

      # By the kind of measurement: heads of columns, and what stands below them.
      COLUMNS = {
        saturated: [RATE, ["p50", time["p50"]], ["p99", time["p99"]], cpu, objects, ["system calls", ->(result) { Report.calls(result) }], memory],
        mixed: [RATE, ["p50 of the fast", time["p50"]], ["p99 of the fast", time["p99"]], ["p99 of the slow", time["slow_p99"]], cpu, objects, memory],
        beside_slow: [["peak/s", ->(result) { result.median("peak").round.to_s }], ["sent/s", ->(result) { result.median("rate").round.to_s }],
          ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]], ["p50 beside", time["p50"]], ["p99 beside", time["p99"]],
          ["sleeps/s", ->(result) { result.median("slow_rate").round.to_s }]],
        beside_busy: [RATE, ["p50 of those in", time["kept_p50"]], ["p99 of those in", time["kept_p99"]], ["p50 of the new", time["p50"]],
          ["p99 of the new", time["p99"]], cpu, memory],
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

      # @param rows [Array<Row>]
      # @param results [Array<Result>]
      # @param rounds [Integer]
      # @param seconds [Numeric]
      # @param notes [Array<String>]
      def initialize(rows:, results:, rounds:, seconds:, notes:)
        @rows = rows
        @results = results
        @rounds = rounds
        @seconds = seconds
        @notes = notes
        @bars = Bars.new(results)
      end

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| @bars.of(row) }

      # @return [String]
      def markdown
        ["One worker process on one core, the client on another; median of #{@rounds} rounds of #{Units.time(@seconds)} each, " \
          "in a fresh process after a warm-up (± median deviation).\n",
          *@rows.map { |row| section(row) }, *list].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        {"" => chart("Requests per second: longer is better", ->(rate) { rate.round.to_s }) { |result| result.median("rate") },
         "-cpu" => chart("Processor time per request: shorter is better", Units.method(:time)) { |result| result.per_operation("cpu") }}.compact
      end

      # @return [Hash] for JSON
      def to_h = {rounds: @rounds, seconds: @seconds, notes: @notes, results: @results.map(&:to_h)}

      private

      def of(row) = @results.select { |result| result.cell.traits[:id] == row.id }

      def section(row)
        columns = COLUMNS.fetch(row.measure)
        rows = of(row).map do |result|
          fields = columns.map { |_, field| result.any? ? field.call(result) : "" }
          [result.cell.contestant.name, *fields, remarks(result).join(", ")]
        end
        ["### #{row.title} (`#{row.id}`)\n", Markdown.table(["", *columns.map(&:first), ""], rows), *verdicts(row)].join("\n")
      end

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
        return [result.failure.tr("|\n", "/ ")] if result.failure
        errors = result.median("errors")
        sample = result.samples.first
        [
          ("client-bound" if Bars.client_bound?(result)),
          ("#{errors.round} errors" if errors && errors >= 1),
          ("not streamed" if sample["streamed"] == false),
          ("disturbed" if (result.median("others") || 0) > DISTURBED),
          sample["no_calls"]
        ].compact
      end

      def list
        ["- \"Client-bound\": the client used over #{(Bars::CLIENT_BOUND * 100).round} % of its core; processor time per request decides there.\n",
          "- \"Not streamed\": the whole body was collected before its beginning was sent.\n",
          "- \"Disturbed\": other processes took over #{(DISTURBED * 100).round} % of the server's core.\n",
          "- In rows with waiting, Puma, Iodine and Agoo have #{Launch::WAITING_THREADS} threads and Itsi its fibers; else Puma has " \
            "#{Launch::THREADS} threads, the others one. NeverBlock has one configuration for all.\n",
          "- Memory is the server's proportional set size, when the row was done.\n",
          *@notes.map { |note| "- #{note}\n" }].join
      end

      def chart(title, unit)
        groups = @rows.select { |row| row.measure == :saturated }.to_h do |row|
          [row.title, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, yield(result)] }]
        end
        groups.reject! { |_, values| values.empty? }
        return if groups.empty?
        Svg.bars(title, groups, colors: Contestant.all.to_h { |contestant| [contestant.name, contestant.color] }, unit:)
      end
    end
  end
end
