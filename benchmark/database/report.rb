# frozen_string_literal: true

# The tables of the database benchmark: for each library and each kind of work, a line for each distance and number of
# fibers, and a column for each contestant.
#
#   Bench::Database::Report.new(rows:, results:, rounds: 3, seconds: 1.0).markdown
require_relative "../bench/report"
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

      # Warnings about a rate, for comparisons.
      def self.marks(result)
        text = [("*" if result.median("server_busy") > BUSY), ("~" if result.median("others") > Bars::DISTURBED), ("!" if (result.median("starved") || 0) > 0)].join
        text.empty? ? "" : " #{text}"
      end

      time = Figures.method(:time)
      number = Figures.method(:number)
      rate = Figures.steady("rate")

      # Figures of a table for a closed loop.
      FIGURES = {
        "Statements or transactions per second" => ->(result) { "#{rate.call(result)}#{marks(result)}" },
        "Processor time of the process for each" => Figures.time_each("cpu"),
        "How long each takes, p50 and p99, without those of 50 ms" => ->(result) { %w[p50 p99].map { |figure| time[figure][result] }.join(", ") }
      }.freeze

      # A line for each contestant, by the row's kind.
      COLUMNS = {
        mixed: [["peak/s", number["capacity"]], ["sent/s", number["rate"]], ["p50 alone", time["alone_p50"]], ["p99 alone", time["alone_p99"]],
          ["p50 beside", time["p50"]], ["p99 beside", time["p99"]], ["over alone", ->(result) { format("%.2f ×", result.median("p99") / result.median("alone_p99")) }],
          ["p99.9 beside", time["p999"]], ["slow ones' p50", time["slow_p50"]], ["p99", time["slow_p99"]], ["backends", number["backends"]]],
        burst: [["fibers", ->(_result, row) { row.fibers }], ["all done in", time["wall"]], ["memory of each while they wait", Figures.bytes("bytes")], ["backends", number["backends"]]]
      }.freeze

      # @return [Array<Bar>]
      def bars = Bars.new(@results).all

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        LAYERS.filter_map { |layer, name|
          rows = @rows.select { |row| row.layer == layer && row.work == "find" }
          rows = rows.select { |row| row.fibers == rows.map(&:fibers).max }
          groups = rows.to_h { |row| [label(row), measured(row).select(&:any?).to_h { |result| [result.cell.contestant.name, result.median("rate")] }] }
          groups.reject! { |_, values| values.empty? }
          ["-#{layer}", Svg.bars("#{name}, rows by their keys per second: longer is better", groups, colors:, unit: ->(rate) { rate.round.to_s })] if groups.any?
        }.to_h
      end

      private

      def head
        "One process on one core, with YJIT; PostgreSQL on another; median of #{@rounds} rounds of #{Units.time(@seconds)} (± median deviation), each in a fresh process after a warm-up.\n"
      end

      def body = @rows.group_by(&:title).values.map { |rows| section(rows) }

      def remarks = [MARKS, *libpq, *failures]

      # Of a row, in the order of the columns; threads are measured once, whatever the number of fibers.
      def measured(row)
        Contestant.for(row.kind).filter_map do |contestant|
          id = (row.kind == :closed && !contestant.fibers?) ? row.with(fibers: nil).id : row.id
          results_of(id).find { |result| result.cell.contestant == contestant }
        end
      end

      def label(row) = [("#{row.milliseconds} ms" unless row.long), *("#{row.fibers} fibers" if row.fibers), *("#{row.long} long × #{row.short} short" if row.long)].compact.join(", ")

      def section(rows)
        tables = case rows.first.kind
        when :closed then closed(rows)
        when :long_short then [long_short(rows)]
        else [contestants_of(rows.first)]
        end
        ["### #{rows.first.title} (`#{rows.first.id}`#{" …" if rows.size > 1})\n", *tables].join("\n")
      end

      def closed(rows)
        names = names(rows)
        FIGURES.each_with_index.flat_map do |(title, figure), i|
          lines = rows.map { |row| [label(row), *measured(row).map { |result| field(result, &figure) }, *(ratios(row) if i.zero?)] }
          lines << ["backends at most", *backends(rows), *BESIDE.map { "" }] if i.zero?
          ["#{title}:\n", Markdown.table(["", *names, *(BESIDE.map { |name| "#{OURS} beside #{name}" } if i.zero?)], lines)]
        end
      end

      def names(rows) = measured(rows.first).map { |result| result.cell.contestant.name }

      def ratios(row)
        mine, *others = ["neverblock 8", *BESIDE].map { |name| measured(row).find { |result| result.cell.contestant.name == name && result.any? } }
        others.map { |other| (mine && other) ? format("%.2f ×", mine.median("rate") / other.median("rate")) : "" }
      end

      def backends(rows)
        rows.map { |row| measured(row).map { |result| result.median("backends") } }.transpose.map { |numbers| numbers.compact.max&.round.to_s }
      end

      def contestants_of(row)
        columns = COLUMNS.fetch(row.kind)
        lines = measured(row).map { |result| [result.cell.contestant.name, *columns.map { |_, figure| field(result) { figure.call(*[result, row].first(figure.arity)) } }] }
        Markdown.table(["", *columns.map(&:first)], lines)
      end

      # Seconds, and the work of our process in that time.
      def long_short(rows)
        lines = rows.map do |row|
          results = measured(row)
          blocking = results.find { |result| result.cell.contestant.name == "blocking" }
          mine = results.find { |result| result.cell.contestant.own && result.any? }
          [label(row), *results.map { |result| field(result, &Figures.seconds("wall")) }, gain(blocking, mine),
            mine ? "#{(mine.median("cpu") / mine.median("wall") * 100).round} %" : "", founding(row)]
        end
        Markdown.table(["", *names(rows), "gain over blocking", "own core busy", "in 2008"], lines)
      end

      def gain(blocking, mine) = (blocking&.any? && mine) ? format("%.1f ×", blocking.median("wall") / mine.median("wall")) : ""

      def founding(row) = format("%.2f s, %.2f s: %.1f ×", *FOUNDING.dig(row.long, row.short).then { |blocking, fibers| [blocking, fibers, blocking / fibers] })

      # Figures of the first process that has reported.
      def libpq
        version = @results.flat_map(&:samples).filter_map { |sample| sample["libpq"] }.first
        ["libpq #{version / 10_000}.#{version % 10_000}."] if version
      end

      # Each message once: a failure in one row is often repeated in others.
      def failures
        @results.select(&:failure).group_by { |result| [result.cell.contestant.name, result.failure] }
          .map { |(name, failure), results| "#{name}: #{failure.tr("|\n", "/ ")} (#{results.size} of its #{@results.count { |result| result.cell.contestant.name == name }} rows)" }
      end
    end
  end
end
