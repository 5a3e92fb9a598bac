# frozen_string_literal: true

# The table of the http_ratios benchmark, beside that of 2008, and the graph of the advantage.
#
#   Bench::HttpRatios::Report.new(rows:, results:, rounds: 3, seconds: 1.0).markdown
require_relative "../bench/report"

module Bench
  class HttpRatios
    class Report < Bench::Report
      # Requests per second in 2008, in fibers and blocking, by short ones for each long one and by how many there were at once.
      FOUNDING = {
        100 => {10 => [457, 385], 100 => [609, 524], 1_000 => [632, 532]},
        50 => {10 => [377, 267], 100 => [461, 337], 1_000 => [472, 339]},
        20 => {10 => [220, 143], 100 => [239, 160], 1_000 => [266, 142]},
        10 => {10 => [131, 79], 100 => [140, 85], 1_000 => [195, 81]},
        5 => {10 => [70, 41], 100 => [76, 42], 1_000 => [109, 42]}
      }.freeze
      COLORS = {10 => ["#c0392b", "#e6b0aa"], 100 => ["#2471a3", "#a9cce3"], 1_000 => ["#27ae60", "#a9dfbf"]}.freeze

      HEAD = ["", "fibers", "blocking", "advantage", "fibers in 2008", "blocking", "advantage", "CPU per request, fibers", "blocking", "backends, fibers", "blocking"].freeze
      FIGURES = [Figures.steady("rate"), Figures.time_each("cpu"), Figures.number("backends")].freeze

      # @param fibers [Numeric] a rate
      # @param blocking [Numeric]
      # @return [Float] per cent
      def self.advantage(fibers, blocking) = (fibers.fdiv(blocking) - 1) * 100

      # @return [Array<Bar>]
      def bars
        @rows.filter_map do |row|
          fibers, blocking = pair(row)
          next unless fibers && blocking
          Bar.at_least("#{row.title}: advantage of fibers", measured(row), 0, unit: " %",
            beside: fibers.failure || blocking.failure || "in 2008 #{founding(row).round} %")
        end
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        series = @rows.group_by(&:concurrency).flat_map { |concurrency, rows|
          [["#{concurrency} at once", rows.to_h { |row| [row.short, measured(row)] }.compact], ["#{concurrency} at once, in 2008", rows.to_h { |row| [row.short, founding(row)] }]]
        }.to_h
        series = series.reject { |_, points| points.empty? }
        return {} if series.none? { |name, points| points.size > 1 && !name.include?("2008") }
        colors = COLORS.flat_map { |concurrency, (now, then_)| [["#{concurrency} at once", now], ["#{concurrency} at once, in 2008", then_]] }.to_h
        {"" => Svg.lines("What fibers gain over blocking", series, colors:, x: "short requests for each long one", y: "more requests per second", unit: ->(value) { "#{value.round} %" }, log: logarithmic?(series))}
      end

      private

      def head
        "Requests per second; one process on one core, with YJIT, the client and PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} " \
          "(± median deviation), each in a fresh process after a warm-up.\n"
      end

      def body = [Markdown.table(HEAD, @rows.map { |row| line(row) })]

      def line(row)
        rates, times, backends = FIGURES.map { |figure| pair(row).map { |result| field(result, &figure) } }
        [row.title, *rates, measured(row)&.then { |figure| "#{figure.round} %" } || Figures::NONE,
          *FOUNDING.dig(row.short, row.concurrency), "#{founding(row).round} %", *times, *backends]
      end

      def pair(row) = CONTESTANTS.map { |contestant| find(row, contestant.name) }

      def measured(row)
        pair(row).then { |results| Report.advantage(*results.map { |result| result.median("rate") }) if results.all? { |result| result&.any? } }
      end

      def founding(row) = Report.advantage(*FOUNDING.dig(row.short, row.concurrency))

      # A logarithmic axis, to show values between 16 % and 1,000 %; others than positive values can't be drawn.
      def logarithmic?(series) = series.values.flat_map(&:values).all?(&:positive?)
    end
  end
end
