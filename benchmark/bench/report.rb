# frozen_string_literal: true

# The common part of reports with rows: measured cells, rounds, and notes.
#
#   tables = {"Wall time of each" => Bench::Figures.time_each("wall")}
#   Bench::Report.new(rows:, results:, rounds: 3, tables:, ratios: {"Wall time" => "wall"}).markdown
#
# With several contestants each figure is a table: a line for each row, a column for each contestant. Then come the ratios of
# the first contestant to the others, in paired rounds. With one contestant all figures are columns of one table.
#
# A report with more to tell is a subclass that defines `head`, `body`, `remarks`, `bars` or `charts`.
require_relative "bar"
require_relative "figures"
require_relative "markdown"
require_relative "ratio"
require_relative "statistics"
require_relative "svg"
require_relative "units"

module Bench
  class Report
    FAILED = "failed"

    # @param rows [Array<#id, #title>]
    # @param results [Array<Result>]
    # @param rounds [Integer]
    # @param notes [Array<String>]
    # @param seconds [Numeric, nil] of each measurement, where it is one of a time
    # @param tables [Hash{String=>Proc}] titles, and what the fields show of a result
    # @param ratios [Hash{String=>String}] titles, and names of figures that are compared for one operation
    def initialize(rows:, results:, rounds:, notes: [], seconds: nil, tables: {}, ratios: {})
      @rows = rows
      @results = results
      @rounds = rounds
      @notes = notes
      @seconds = seconds
      @tables = tables
      @ratios = ratios
    end

    # @return [Array<Bar>] what is asked of the figures
    def bars = []

    # @return [Hash{String=>String}] SVG, by the suffix of the file's name
    def charts = {}

    # @return [String]
    def markdown = [head, *body, list(*@notes, *remarks)].join("\n")

    # @return [Hash] for JSON
    def to_h = {rounds: @rounds, seconds: @seconds, notes: @notes, results: @results.map(&:to_h)}.compact

    private

    # @return [String] what was measured, and how
    def head = "Median of #{@rounds} rounds#{" of #{Units.time(@seconds)}" if @seconds}, each in a fresh process.\n"

    # @return [Array<String>] the tables
    def body
      return [columns(@rows, @tables) { |row| of(row).first }] if contestants.one?
      [*@tables.flat_map { |title, figure| ["#{title}:\n", table(&figure)] },
        *@ratios.flat_map { |title, name| ["#{title}, #{contestants.first} beside the others, with the interval of 95 %:\n", ratio_table(name)] }]
    end

    # @return [Array<String>] what else to tell below
    def remarks = failures

    def of(row) = results_of(row.id)

    def results_of(id) = (@by_id ||= @results.group_by { |result| result.cell.id }).fetch(id, [])

    def find(row, name) = of(row).find { |result| result.cell.contestant.name == name }

    # One name may have several colours, in rows that are not beside each other.
    def contestants = @results.map { |result| result.cell.contestant }.uniq(&:name)

    def colors = contestants.to_h { |contestant| [contestant.name, contestant.color] }

    def failures = @results.filter_map(&:trouble)

    # A line for each row, a column for each contestant; empty where that is not measured.
    # @yieldparam result [Result]
    # @yieldreturn [String]
    def table(rows = @rows, contestants: self.contestants, &figure)
      lines = rows.map do |row|
        [row.title, *contestants.map { |contestant| find(row, contestant.name)&.then { |result| field(result, &figure) } }]
      end
      Markdown.table(["", *contestants.map(&:name)], lines)
    end

    # A line for each item, a column for each figure.
    # @yieldparam item [#title]
    # @yieldreturn [Result, nil]
    def columns(items, figures)
      Markdown.table(["", *figures.keys], items.map { |item| [item.title, *figures.values.map { |figure| field(yield(item), &figure) }] })
    end

    # In paired rounds.
    def ratio_table(name)
      first, *others = contestants
      lines = @rows.map do |row|
        [row.title, *others.map { |other| Ratio.between(find(row, first.name), find(row, other.name), name) || Figures::NONE }]
      end
      Markdown.table(["", *others.map(&:name)], lines)
    end

    # @param result [Result, nil]
    # @return [String]
    def field(result)
      return Figures::NONE unless result
      result.any? ? yield(result) : FAILED
    end

    # @return [String] a list
    def list(*lines) = lines.map { |line| "- #{line.tr("|\n", "/ ")}\n" }.join

    # Bars for each contestant, in groups of rows.
    # @yieldparam result [Result]
    # @yieldreturn [Numeric]
    # @return [String, nil] nil where there is nothing to show
    def bar_chart(title, rows: @rows, unit: ->(number) { number.round.to_s })
      groups = rows.to_h { |row| [row.title, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, yield(result)] }] }
      groups.reject! { |_, values| values.empty? }
      Svg.bars(title, groups, colors:, unit:) if groups.any?
    end
  end
end
