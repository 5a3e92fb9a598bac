# frozen_string_literal: true

# The tables of the active_record benchmark.
#
#   Bench::ActiveRecord::Report.new(rows:, results:, rounds: 3).markdown
require_relative "../bench/report"
require_relative "row"

module Bench
  class ActiveRecord
    class Report < Bench::Report
      OURS = "neverblock 8"
      STOCK = "pool 8"
      WAVES = 1.1 # times the arithmetic minimum
      FOUNDING = {2 => 10, 4 => 5, 8 => 3, 16 => 2, 32 => 1}.freeze # seconds that twenty sleeps took in 2008, about

      # In 2008 ours was faster in each workload.
      # @return [Array<Bar>]
      def bars
        [*works.filter_map { |row|
          mine, stock = [OURS, STOCK].map { |name| find(row, name) }
          next unless mine && stock
          Bar.at_least("#{row.work.tr("_", " ")}, #{row.milliseconds} ms: rate beside #{STOCK}", (mine.any? && stock.any?) ? stock.median("wall") / mine.median("wall") : nil, 1.0,
            unit: " ×", beside: mine.failure || stock.failure || "processor time #{Units.time(mine.per_operation("cpu"))} and #{Units.time(stock.per_operation("cpu"))}")
        }, *counts.filter_map { |row|
          mine = find(row, "neverblock #{row.connections}") or next
          Bar.at_most("#{ActiveRecord::SLEEPS} sleeps of a second, #{row.connections} connections: over the #{row.waves} s of the waves", mine.median("slept")&.fdiv(row.waves), WAVES,
            unit: " ×", beside: mine.failure || format("%.2f s", mine.median("slept")))
        }]
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => bar_chart("Workloads per second: longer is better", rows: works) { |result| rate(result) }}.compact

      private

      def head = "One process on one core, with YJIT; PostgreSQL on another; median of #{@rounds} rounds, each in a fresh process after a warm-up.\n"

      def body = [*(workloads if works.any?), *(connections if counts.any?)]

      def works = @rows.reject(&:connections)

      def counts = @rows.select(&:connections)

      def rate(result) = result.median("operations") / result.median("wall")

      def workloads
        measured = contestants.select { |contestant| works.any? { |row| find(row, contestant.name) } }
        {"times per second" => ->(result) { rate(result).round.to_s }, "processor time of the process for each" => Figures.time_each("cpu")}.flat_map do |title, figure|
          ["Each #{ActiveRecord::TIMES} times, #{title}:\n", table(works, contestants: measured, &figure)]
        end
      end

      def connections
        lines = counts.map do |row|
          results = row.contestants.map { |contestant| find(row, contestant.name) }
          [row.title, *%w[wall slept].flat_map { |figure| results.map { |result| field(result, &Figures.time(figure)) } }, "#{row.waves} s", "#{FOUNDING.fetch(row.connections)} s",
            *results.map { |result| field(result, &Figures.number("backends")) }]
        end
        kinds = %w[neverblock pool]
        ["#{ActiveRecord::ASKED} × `select 1`, then #{ActiveRecord::SLEEPS} × `select pg_sleep(1)` at once, by connections:\n",
          Markdown.table(["", *["select 1", "sleeps"].flat_map { |what| kinds.map { |kind| "#{what}, #{kind}" } }, "waves", "in 2008", *kinds.map { |kind| "backends, #{kind}" }], lines)]
      end
    end
  end
end
