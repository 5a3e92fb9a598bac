# frozen_string_literal: true

# What the reports of benchmarks of servers have in common: a table for each row, with a line for each server.
#
#   class Tables < Bench::RowsReport
#     COLUMNS = {saturated: [RATE, ["p50", ->(result) { Bench::Units.time(result.median("p50")) }]]}.freeze
#   end
#
# COLUMNS: by the kind of measurement, heads of columns and what stands below them.
require_relative "markdown"
require_relative "report"
require_relative "statistics"
require_relative "svg"
require_relative "units"

module Bench
  class RowsReport < Report
    DISTURBED = 0.1 # of the server's core, taken by others

    RATE = ["requests/s", ->(result) { "#{result.median("rate").round} ±#{(Statistics.spread(result.samples.map { |sample| sample["rate"] }) * 100).round} %" }].freeze
    CPU = ["CPU per request", ->(result) { Units.time(result.per_operation("cpu")) }].freeze
    OBJECTS = ["objects", ->(result) { result.per_operation("objects")&.then { |number| Units.count(number) } }].freeze

    private

    def of(row) = @results.select { |result| result.cell.traits[:id] == row.id }

    def section(row)
      columns = self.class::COLUMNS.fetch(row.measure)
      rows = of(row).map do |result|
        fields = columns.map { |_, field| result.any? ? value(field, result, row) : "" }
        [result.cell.contestant.name, *fields, remarks(result).join(", ")]
      end
      ["### #{row.title} (`#{row.id}`)\n", Markdown.table(["", *columns.map(&:first), ""], rows)].join("\n")
    end

    def value(field, result, _row) = field.call(result)

    def remarks(result)
      return [result.failure.tr("|\n", "/ ")] if result.failure
      errors = result.median("errors")
      [("#{errors.round} errors" if errors && errors >= 1), ("disturbed" if (result.median("others") || 0) > DISTURBED)].compact
    end

    # @return [String, nil] bars for the rows that saturate the server
    def chart(title, unit)
      groups = @rows.select { |row| row.measure == :saturated }.to_h do |row|
        [row.title, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, yield(result)] }]
      end
      groups.reject! { |_, values| values.empty? }
      return if groups.empty?
      Svg.bars(title, groups, colors: @results.to_h { |result| [result.cell.contestant.name, result.cell.contestant.color] }, unit:)
    end
  end
end
