# frozen_string_literal: true

# The common part of reports about servers: a table for each row, with a line for each server.
#
#   class Tables < Bench::RowsReport
#     COLUMNS = {saturated: [RATE, ["p50", Bench::Figures.time("p50")]]}.freeze
#   end
#
# COLUMNS: by the kind of measurement, heads of columns and what stands below them.
require_relative "report"

module Bench
  class RowsReport < Report
    DISTURBED = 0.1 # of the server's core, taken by others

    RATE = ["requests/s", Figures.steady("rate")].freeze
    CPU = ["CPU per request", Figures.time_each("cpu")].freeze
    OBJECTS = ["objects", Figures.count_each("objects")].freeze

    private

    def body = @rows.map { |row| section(row) }

    # What failed is told in its line.
    def remarks = []

    def section(row)
      columns = self.class::COLUMNS.fetch(row.measure)
      lines = of(row).map do |result|
        fields = columns.map { |_, figure| result.any? ? value(figure, result, row) : "" }
        [result.cell.contestant.name, *fields, remarks_of(result).join(", ")]
      end
      ["### #{row.title} (`#{row.id}`)\n", Markdown.table(["", *columns.map(&:first), ""], lines)].join("\n")
    end

    # Some figures are told of a result and its row.
    def value(figure, result, row) = figure.call(*[result, row].first(figure.arity))

    def remarks_of(result)
      return [result.failure.tr("|\n", "/ ")] if result.failure
      errors = result.median("errors")
      [("#{errors.round} errors" if errors && errors >= 1), ("disturbed" if (result.median("others") || 0) > DISTURBED)].compact
    end

    # The rows that saturate the server.
    def saturated = @rows.select { |row| row.measure == :saturated }
  end
end
