# frozen_string_literal: true

# The tables of the active_record benchmark.
#
#   Bench::ActiveRecord::Report.new(rows:, results:, rounds: 3, notes: []).markdown
require_relative "../bench/bar"
require_relative "../bench/markdown"
require_relative "../bench/report"
require_relative "../bench/svg"
require_relative "../bench/units"
require_relative "row"

module Bench
  class ActiveRecord
    class Report < Bench::Report
      OURS = "neverblock 8"
      STOCK = "pool 8"
      WAVES = 1.1 # times what arithmetic asks for
      FOUNDING = {2 => 10, 4 => 5, 8 => 3, 16 => 2, 32 => 1}.freeze # seconds that twenty sleeps took in 2008, about

      # In 2008 ours was faster in each workload.
      # @return [Array<Bar>]
      def bars
        [*works.filter_map { |row|
          mine, stock = [OURS, STOCK].map { |name| of(row, name) }
          next unless mine && stock
          Bar.at_least("#{row.work.tr("_", " ")}, #{row.milliseconds} ms: rate beside #{STOCK}", (mine.any? && stock.any?) ? stock.median("wall") / mine.median("wall") : nil, 1.0,
            unit: " ×", beside: mine.failure || stock.failure || "processor time #{Units.time(mine.per_operation("cpu"))} and #{Units.time(stock.per_operation("cpu"))}")
        }, *counts.filter_map { |row|
          mine = of(row, "neverblock #{row.connections}") or next
          Bar.at_most("#{ActiveRecord::SLEEPS} sleeps of a second, #{row.connections} connections: over the #{row.waves} s of the waves", mine.median("slept")&.fdiv(row.waves), WAVES,
            unit: " ×", beside: mine.failure || format("%.2f s", mine.median("slept")))
        }]
      end

      # @return [String]
      def markdown
        ["One process on one core, with YJIT; PostgreSQL on another; median of #{@rounds} rounds, each in a fresh process after a warm-up.\n",
          *(workloads if works.any?), *(connections if counts.any?), notes(*failures)].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        groups = works.to_h { |row| [row.title, @results.select { |result| result.cell.traits[:id] == row.id && result.any? }.to_h { |result| [result.cell.contestant.name, rate(result)] }] }
        groups.reject! { |_, values| values.empty? }
        return {} if groups.empty?
        colors = @results.to_h { |result| [result.cell.contestant.name, result.cell.contestant.color] }
        {"" => Svg.bars("Workloads per second: longer is better", groups, colors:, unit: ->(rate) { rate.round.to_s })}
      end

      private

      def works = @rows.reject(&:connections)

      def counts = @rows.select(&:connections)

      def of(row, name) = @results.find { |result| result.cell.traits[:id] == row.id && result.cell.contestant.name == name }

      def rate(result) = result.median("operations") / result.median("wall")

      def workloads
        names = works.flat_map { |row| row.contestants.map(&:name) }.uniq.select { |name| works.any? { |row| of(row, name) } }
        [["times per second", ->(result) { rate(result).round.to_s }], ["processor time of the process for each", ->(result) { Units.time(result.per_operation("cpu")) }]].flat_map do |title, field|
          lines = works.map { |row| [row.title, *names.map { |name| of(row, name).then { |result| result&.any? ? field.call(result) : "–" } }] }
          ["Each #{ActiveRecord::TIMES} times, #{title}:\n", Markdown.table(["", *names], lines)]
        end
      end

      def connections
        lines = counts.map do |row|
          results = row.contestants.map { |contestant| of(row, contestant.name) }
          [row.title, *%w[wall slept].flat_map { |figure| results.map { |result| result&.any? ? Units.time(result.median(figure)) : "–" } }, "#{row.waves} s", "#{FOUNDING.fetch(row.connections)} s",
            *results.map { |result| result&.any? ? result.median("backends").round.to_s : "–" }]
        end
        kinds = %w[neverblock pool]
        ["#{ActiveRecord::ASKED} × `select 1`, then #{ActiveRecord::SLEEPS} × `select pg_sleep(1)` at once, by connections:\n",
          Markdown.table(["", *["select 1", "sleeps"].flat_map { |what| kinds.map { |kind| "#{what}, #{kind}" } }, "waves", "in 2008", *kinds.map { |kind| "backends, #{kind}" }], lines)]
      end

      def failures = @results.select(&:failure).map { |result| "#{result.cell.row}, #{result.cell.contestant}: #{result.failure.tr("|\n", "/ ")}" }
    end
  end
end
