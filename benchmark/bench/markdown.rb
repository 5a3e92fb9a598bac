# frozen_string_literal: true

# Markdown tables whose columns also line up as plain text.
#
#   Bench::Markdown.table(%w[case ns], [["queue hop", "410"]])
module Bench
  module Markdown
    module_function

    # @param head [Array<String>]
    # @param rows [Array<Array<String>>] the first column is aligned left, the others right
    # @return [String]
    def table(head, rows)
      widths = [head, *rows].transpose.map { |column| [2, *column.map { |field| field.to_s.length }].max }
      line = ->(fields) { "| #{fields.each_with_index.map { |field, i| i.zero? ? field.to_s.ljust(widths[i]) : field.to_s.rjust(widths[i]) }.join(" | ")} |\n" }
      ruler = widths.each_with_index.map { |width, i| i.zero? ? "-" * width : "#{"-" * (width - 1)}:" }
      [head, ruler, *rows].map(&line).join
    end

    # @param pairs [Hash{String=>String}]
    # @return [String] a list
    def list(pairs) = pairs.map { |name, value| "- #{name}: #{value}\n" }.join
  end
end
