# frozen_string_literal: true

# The tables of the rails benchmark: one for each row.
#
#   Bench::Rails::Report.new(rows:, results:, rounds: 3, seconds: 1.0, notes: []).markdown
require_relative "../bench/markdown"
require_relative "../bench/statistics"
require_relative "../bench/svg"
require_relative "../bench/units"
require_relative "bars"

module Bench
  class Rails
    class Report
      DISTURBED = 0.1 # of the server's core, taken by others
      BESIDE = "puma 5" # what `rails new` comes nearest to

      time = ->(figure) { ->(result) { Units.time(result.median(figure)) } }
      number = ->(figure) { ->(result) { result.median(figure).round.to_s } }
      share = ->(figure) { ->(result) { format("%.2f ×", result.median(figure) / result.median("alone_p99")) } }
      rate = ["requests/s", ->(result) { "#{result.median("rate").round} ±#{(Statistics.spread(result.samples.map { |sample| sample["rate"] }) * 100).round} %" }]
      cpu = ["CPU per request", ->(result) { Units.time(result.per_operation("cpu")) }]
      objects = ["objects", ->(result) { result.per_operation("objects")&.then { |objects| Units.count(objects) } }]
      held = [["PSS", ->(result) { Units.bytes(result.median("memory")) }], ["connections", number["connections"]]]

      # By the kind of measurement: heads of columns, and what stands below them.
      COLUMNS = {
        saturated: [rate, ["beside #{BESIDE}", ->(result, beside) { beside && format("%.2f ×", result.median("rate") / beside.median("rate")) }],
          ["p50", time["p50"]], ["p99", time["p99"]], cpu, objects, *held],
        mixed: [rate, ["JSON p50", time["p50"]], ["p99", time["p99"]], ["waiting p50", time["sleep_p50"]], ["p99", time["sleep_p99"]],
          ["computing p50", time["cpu_p50"]], ["p99", time["cpu_p99"]], cpu, *held],
        beside: [["peak/s", number["peak"]], ["sent/s", number["rate"]], ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]],
          ["p99 beside queries", time["queries_p99"]], ["over alone", share["queries_p99"]], ["p99 beside ten of a second", time["seconds_p99"]],
          ["over alone", share["seconds_p99"]], ["of these/s", number["slept"]], *held],
        together: [["until all are answered", time["wall"]], *held]
      }.freeze

      # @param rows [Array<Servers::Row>]
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
      end

      # @return [Array<Bar>]
      def bars = Bars.new(@results).all

      # @return [String]
      def markdown
        ["One process on one core, the client and PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} for each row " \
          "(± median deviation). In each round every server serves all rows in one fresh process.\n",
          *@rows.map { |row| section(row) }, *@notes.map { |note| "- #{note}\n" }.join].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        groups = @rows.select { |row| row.measure == :saturated }.to_h do |row|
          [row.title, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, result.median("rate")] }]
        end
        groups.reject! { |_, values| values.empty? }
        return {} if groups.empty?
        colors = @results.to_h { |result| [result.cell.contestant.name, result.cell.contestant.color] }
        {"" => Svg.bars("Requests per second: longer is better", groups, colors:, unit: ->(rate) { rate.round.to_s })}
      end

      # @return [Hash] for JSON
      def to_h = {rounds: @rounds, seconds: @seconds, notes: @notes, results: @results.map(&:to_h)}

      private

      def of(row) = @results.select { |result| result.cell.traits[:id] == row.id }

      def section(row)
        columns = COLUMNS.fetch(row.measure)
        beside = of(row).find { |result| result.cell.contestant.name == BESIDE && result.any? }
        rows = of(row).map do |result|
          fields = columns.map { |_, field| result.any? ? field.call(*[result, beside].first(field.arity)) : "" }
          [result.cell.contestant.name, *fields, remarks(result).join(", ")]
        end
        ["### #{row.title} (`#{row.id}`)\n", Markdown.table(["", *columns.map(&:first), ""], rows)].join("\n")
      end

      def remarks(result)
        return [result.failure.tr("|\n", "/ ")] if result.failure
        errors = result.median("errors")
        [("#{errors.round} errors" if errors && errors >= 1), ("disturbed" if (result.median("others") || 0) > DISTURBED)].compact
      end
    end
  end
end
