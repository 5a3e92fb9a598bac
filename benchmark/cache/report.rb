# frozen_string_literal: true

# The tables of the cache benchmark: one for each row, and the bars.
#
#   Bench::Cache::Report.new(rows:, results:, rounds: 3, seconds: 2.0).markdown
require_relative "../bench/rows_report"
require_relative "../servers/turns"

module Bench
  class Cache
    class Report < RowsReport
      SHARE = 1 / 3r # of rack-cache's processor time
      HOLD = 20 # ms
      # Whose hits are compared with which peer's.
      PEERS = {"memory" => "rack_heap", "file" => "rack_file"}.freeze
      FLOOR = "alone"

      time = Figures.method(:time)
      crowd = [
        ["calls of the app", Figures.number("calls")], ["p50", time["p50"]], ["p99", time["p99"]], ["last", time["longest"]],
        ["longest hold", time["held"]], ["without the collector", time["held_working"]], ["the first time", time["held_first"]],
        CPU, ["collector", Figures.time_each("collecting")], ["memory for each", Figures.bytes("memory_each")]
      ]
      COLUMNS = {
        hits: [RATE, ["p50", time["p50"]], ["p99", time["p99"]], CPU, ["own share", :own_share], OBJECTS, ["memory", Figures.bytes("memory")]],
        herd: crowd, clients: crowd
      }.freeze

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| (row.measure == :hits) ? hit_bars(row) : crowd_bars(row) }

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts
        hits = @rows.select { |row| row.measure == :hits }
        {"" => bar_chart("Processor time per request: shorter is better", rows: hits, unit: Units.method(:time)) { |result| result.per_operation("cpu") }}.compact
      end

      private

      def head
        "One process on one core, the client on another. Hits: #{@rounds} rounds; in each, all servers of a row run at once and take turns of #{Units.time(@seconds * TURN)}. " \
          "Crowds: #{@rounds} rounds, each in a fresh process. Medians.\n"
      end

      def value(figure, result, row) = (figure == :own_share) ? own_share(result, row) : super

      def remarks_of(result)
        calls = result.median("calls") if result.cell.id.match?(/hit|not_modified/) && result.cell.contestant.library != FLOOR
        [*super, ("the app was asked #{calls.round} times" if calls&.positive?)].compact
      end

      def of_kind(row, kind) = of(row).find { |result| result.cell.contestant.library == kind }

      # Turn by turn: the machine's pace changes from one to the next.
      def own(result, row)
        floor = of_kind(row, FLOOR)
        return [] unless [result, floor].all? { |one| one&.any? }
        result.shares("cpu").zip(floor.shares("cpu")).filter_map { |mine, other| mine - other if other }
      end

      def own_share(result, row)
        shares = own(result, row)
        (shares.empty? || result.cell.contestant.library == FLOOR) ? Figures::NONE : Units.time([Statistics.median(shares), 0].max)
      end

      def hit_bars(row)
        PEERS.flat_map do |kind, peer|
          mine, other = of_kind(row, kind), of_kind(row, peer)
          next [] unless mine && other
          beside = mine.failure || other.failure
          [["in total", ratio(mine.shares("cpu"), other.shares("cpu"))], ["its own share", ratio(own(mine, row), own(other, row))]].map do |what, figure|
            Bar.at_most("#{row.id}: processor time of a hit beside #{other.cell.contestant}'s, #{what}, #{kind}", beside ? nil : figure, SHARE.to_f, unit: " ×", beside:)
          end
        end
      end

      # @return [Float, nil] the median of the ratios of both in the same turn
      def ratio(mine, other)
        ratios = mine.zip(other).filter_map { |one, two| one / two if two&.positive? }
        Statistics.median(ratios) if ratios.any?
      end

      def crowd_bars(row)
        of(row).reject { |result| result.cell.contestant.library.start_with?("rack") }.flat_map do |result|
          name = "#{row.id}, #{result.cell.contestant}"
          [Bar.at_most("#{name}: calls of the app", worst(result, "calls"), 1, unit: "", beside: result.failure),
            Bar.at_most("#{name}: longest hold of the loop", worst(result, "held")&.*(1e3), HOLD, unit: " ms", beside: result.failure),
            Bar.at_most("#{name}: the same without the garbage collector", worst(result, "held_working")&.*(1e3), HOLD, unit: " ms", beside: result.failure)]
        end
      end

      def worst(result, figure) = (result.samples.map { |sample| sample[figure] }.max if result.any?)
    end
  end
end
