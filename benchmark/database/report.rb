# frozen_string_literal: true

# The tables of the database benchmark: for each library and each kind of work, a line for each distance and number of
# fibers, and a column for each contestant.
#
#   Bench::Database::Report.new(rows:, results:, rounds: 3, seconds: 1.0, notes: []).markdown
require_relative "../bench/markdown"
require_relative "../bench/report"
require_relative "../bench/statistics"
require_relative "../bench/svg"
require_relative "../bench/units"
require_relative "bars"
require_relative "contestant"
require_relative "row"

module Bench
  class Database
    class Report < Bench::Report
      BUSY = 0.9 # of PostgreSQL's core
      BESIDE = ["pool 8", "pool 32"].freeze
      OURS = "neverblock"

      MARKS = "* PostgreSQL's core was busy for over #{(BUSY * 100).round} % of the time; ~ other processes took over #{(Bars::DISTURBED * 100).round} % of the measured one's core; " \
        "! some fibers never got a turn, since the pool is not fair."

      # Seconds in 2008, one after another and in fibers, by long statements and short ones after each.
      FOUNDING = {
        10 => {2 => [0.56, 0.50], 5 => [0.55, 0.40], 10 => [0.60, 0.40], 20 => [0.72, 0.45], 50 => [0.98, 0.62], 100 => [1.46, 0.94]},
        50 => {2 => [2.55, 2.26], 5 => [2.72, 1.83], 10 => [3.01, 1.82], 20 => [3.43, 2.10], 50 => [4.78, 3.23], 100 => [7.42, 5.17]},
        100 => {2 => [5.15, 4.46], 5 => [5.45, 3.63], 10 => [5.90, 3.65], 20 => [6.83, 4.33], 50 => [9.74, 8.68], 100 => [14.27, 12.68]}
      }.freeze

      # What to know of a rate before it is compared.
      def self.marks(result)
        text = [("*" if result.median("server_busy") > BUSY), ("~" if result.median("others") > Bars::DISTURBED), ("!" if (result.median("starved") || 0) > 0)].join
        text.empty? ? "" : " #{text}"
      end

      time = ->(figure) { ->(result) { result.median(figure)&.then { |seconds| Units.time(seconds) } || "–" } }

      # What a table of the works in a closed loop shows.
      FIGURES = {
        "Statements or transactions per second" =>
          ->(result) { "#{result.median("rate").round} ±#{(Statistics.spread(result.samples.map { |sample| sample["rate"] }) * 100).round} %#{marks(result)}" },
        "Processor time of the process for each" => ->(result) { Units.time(result.per_operation("cpu")) },
        "How long each takes, p50 and p99, without those of 50 ms" => ->(result) { %w[p50 p99].map { |figure| time[figure][result] }.join(", ") }
      }.freeze

      number = ->(figure) { ->(result) { result.median(figure).round.to_s } }
      MIXED = [["peak/s", number["capacity"]], ["sent/s", number["rate"]], ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]],
        ["p50 beside", time["p50"]], ["p99 beside", time["p99"]], ["over alone", ->(result) { format("%.2f ×", result.median("p99") / result.median("alone_p99")) }],
        ["p99.9 beside", time["p999"]], ["slow ones' p50", time["slow_p50"]], ["p99", time["slow_p99"]], ["backends", number["backends"]]].freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@results).all

      # @return [String]
      def markdown
        ["One process on one core, with YJIT; PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} (± median deviation), each in a fresh process after a warm-up.\n",
          *@rows.group_by(&:title).values.map { |rows| section(rows) },
          notes(MARKS, *libpq, *failures)].join("\n")
      end

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        LAYERS.keys.filter_map { |layer|
          rows = @rows.select { |row| row.layer == layer && row.work == "find" }
          rows = rows.select { |row| row.fibers == rows.map(&:fibers).max }
          groups = rows.to_h { |row| [label(row), bars_of(row)] }.reject { |_, values| values.empty? }
          ["-#{layer}", Svg.bars("#{LAYERS.fetch(layer)}, rows by their keys per second: longer is better", groups, colors:, unit: ->(rate) { rate.round.to_s })] if groups.any?
        }.to_h
      end

      private

      def of(row, contestant)
        id = (row.kind == :closed && !contestant.fibers?) ? row.with(fibers: nil).id : row.id
        @results.find { |result| result.cell.traits[:id] == id && result.cell.contestant == contestant }
      end

      def contestants(rows) = Contestant.for(rows.first.kind).select { |contestant| rows.any? { |row| of(row, contestant) } }

      def colors = @results.to_h { |result| [result.cell.contestant.name, result.cell.contestant.color] }

      def bars_of(row)
        contestants([row]).map { |contestant| of(row, contestant) }.select(&:any?).to_h { |result| [result.cell.contestant.name, result.median("rate")] }
      end

      def label(row) = [("#{row.milliseconds} ms" unless row.long), *("#{row.fibers} fibers" if row.fibers), *("#{row.long} long × #{row.short} short" if row.long)].compact.join(", ")

      def section(rows)
        tables = case rows.first.kind
        when :closed then closed(rows)
        when :mixed then [mixed(rows.first)]
        when :burst then [burst(rows.first)]
        when :long_short then [long_short(rows)]
        end
        ["### #{rows.first.title} (`#{rows.first.id}`#{" …" if rows.size > 1})\n", *tables].join("\n")
      end

      def closed(rows)
        all = contestants(rows)
        FIGURES.each_with_index.flat_map do |(title, field), i|
          lines = rows.map do |row|
            results = all.map { |contestant| of(row, contestant) }
            [label(row), *results.map { |result| result.any? ? field.call(result) : "–" }, *(ratios(row) if i.zero?)]
          end
          lines << ["backends at most", *all.map { |contestant| backends(rows, contestant) }, *BESIDE.map { "" }] if i.zero?
          ["#{title}:\n", Markdown.table(["", *all.map(&:name), *(BESIDE.map { |name| "#{OURS} beside #{name}" } if i.zero?)], lines)]
        end
      end

      def ratios(row)
        all = contestants([row])
        mine = all.find(&:own)&.then { |contestant| of(row, contestant) }
        BESIDE.map do |name|
          other = all.find { |contestant| contestant.name == name }&.then { |contestant| of(row, contestant) }
          (mine&.any? && other&.any?) ? format("%.2f ×", mine.median("rate") / other.median("rate")) : ""
        end
      end

      def backends(rows, contestant) = rows.filter_map { |row| of(row, contestant).median("backends") }.max&.round.to_s

      def mixed(row)
        lines = contestants([row]).map do |contestant|
          result = of(row, contestant)
          [contestant.name, *MIXED.map { |_, field| result.any? ? field.call(result) : "–" }]
        end
        Markdown.table(["", *MIXED.map(&:first)], lines)
      end

      def burst(row)
        lines = contestants([row]).map do |contestant|
          result = of(row, contestant)
          fields = result.any? ? [row.fibers, Units.time(result.median("wall")), Units.bytes(result.median("bytes")), result.median("backends").round] : []
          [contestant.name, *fields]
        end
        Markdown.table(["", "fibers", "all done in", "memory of each while they wait", "backends"], lines)
      end

      # Seconds, and what our process had to do meanwhile.
      def long_short(rows)
        all = contestants(rows)
        lines = rows.map do |row|
          results = all.to_h { |contestant| [contestant.name, of(row, contestant)] }
          seconds = results.values.map { |result| result.any? ? format("%.2f s", result.median("wall")) : "–" }
          mine = results.values.find { |result| result.cell.contestant.own && result.any? }
          [label(row), *seconds, gain(results["blocking"], mine), mine ? "#{(mine.median("cpu") / mine.median("wall") * 100).round} %" : "", founding(row)]
        end
        Markdown.table(["", *all.map(&:name), "gain over blocking", "own core busy", "in 2008"], lines)
      end

      def gain(blocking, mine) = (blocking&.any? && mine) ? format("%.1f ×", blocking.median("wall") / mine.median("wall")) : ""

      def founding(row) = format("%.2f s, %.2f s: %.1f ×", *FOUNDING.dig(row.long, row.short).then { |blocking, fibers| [blocking, fibers, blocking / fibers] })

      # As of the first process that told.
      def libpq
        version = @results.flat_map(&:samples).filter_map { |sample| sample["libpq"] }.first
        ["libpq #{version / 10_000}.#{version % 10_000}."] if version
      end

      # Each once: what fails in one row does so in many.
      def failures
        @results.select(&:failure).group_by { |result| [result.cell.contestant.name, result.failure] }
          .map { |(name, failure), results| "#{name}: #{failure.tr("|\n", "/ ")} (#{results.size} of its #{@results.count { |result| result.cell.contestant.name == name }} rows)" }
      end
    end
  end
end
