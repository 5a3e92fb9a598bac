# frozen_string_literal: true

# A figure and its bar: printed as pass or short, whatever the figure is.
#
#   Bench::Bar.at_least("queue hop", 2.3, 2.0, unit: "×").to_s   # => "pass   2.3× (asked: at least 2×)  queue hop"
module Bench
  Bar = Data.define(:title, :figure, :limit, :kind, :unit, :beside) do
    # @param title [String]
    # @param figure [Numeric, nil] nil where it could not be measured, which is short
    # @param limit [Numeric] the least that passes
    # @param unit [String]
    # @param beside [String, nil] further text
    # @return [Bar]
    def self.at_least(title, figure, limit, unit:, beside: nil) = new(title:, figure:, limit:, kind: :at_least, unit:, beside:)

    # The same, where the limit is the most that passes.
    def self.at_most(title, figure, limit, unit:, beside: nil) = new(title:, figure:, limit:, kind: :at_most, unit:, beside:)

    # @return [Boolean]
    def pass?
      return false unless figure
      (kind == :at_least) ? figure >= limit : figure <= limit
    end

    # @return [Array<String>] the fields of a table's row
    def fields
      [title, figure ? "#{short(cautious)}#{unit}" : "none", "#{(kind == :at_least) ? "≥" : "≤"} #{short(limit)}#{unit}",
        pass? ? "pass" : "**short**", beside.to_s]
    end

    private

    # Rounded away from the limit's good side, so that a short figure never looks as if it passed.
    def cautious = (kind == :at_least) ? figure.floor(2) : figure.ceil(2)

    def short(number) = format("%.2f", number).sub(/\.?0+\z/, "")
  end
end
