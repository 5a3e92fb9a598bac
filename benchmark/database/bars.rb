# frozen_string_literal: true

# The bars of Active Record on eight shared connections, and the figures.
#
#   Bench::Database::Bars.new(results).all.map(&:title)     # => ["find, 1 ms, 1,000 fibers: rate beside pool 8", ...]
require_relative "../bench/bar"
require_relative "../bench/units"
require_relative "row"

module Bench
  class Database
    class Bars
      OURS = "neverblock 8"
      FAR = {"pool 8" => 2.0, "pool 32" => 1.0}.freeze # times their rate at 1 ms
      BACKENDS = 0.25 # of those of a pool of 32
      COST = 0.9 # of the pool's processor time
      BURST = 64 # KiB
      MIXED = 2.0 # times the p99 alone
      DISTURBED = 0.1 # of the core, taken by others

      # @param results [Array<Result>]
      def initialize(results)
        @results = results
      end

      # @return [Array<Bar>]
      def all = [*far, *near, *cost, *mixed, *burst]

      private

      def far
        id, mine = finds(1)
        return [] unless mine
        rates = FAR.filter_map { |name, times| rate(id, mine, name, times, "1 ms") }
        pool = of(id, "pool 32")
        return rates unless pool
        [*rates, Bar.at_most("find, 1 ms, 1,000 fibers: backends beside pool 32", ratio(mine, pool, :median, "backends"), BACKENDS, unit: " ×",
          beside: beside(mine, pool) { "#{mine.median("backends").round} and #{pool.median("backends").round}" })]
      end

      def near
        id, mine = finds(0)
        mine ? [rate(id, mine, "pool 8", 1.0, "0 ms")].compact : []
      end

      def cost
        [1, 0].filter_map do |milliseconds|
          id, mine = finds(milliseconds)
          pool = mine && of(id, "pool 8") or next
          Bar.at_most("find, #{milliseconds} ms, 1,000 fibers: processor time beside pool 8", ratio(mine, pool, :per_operation, "cpu"), COST, unit: " ×",
            beside: beside(mine, pool) { "#{Units.time(mine.per_operation("cpu"))} and #{Units.time(pool.per_operation("cpu"))}" })
        end
      end

      def mixed
        LAYERS.keys.product(Database::MIXED).filter_map do |layer, text|
          mine = of(Row.new(layer:, work: text, round_trip: 0.001).id, OURS) or next
          Bar.at_most("#{LAYERS.fetch(layer)}: fast ones' p99 beside slow ones of #{(text == "same") ? "one text" : "many texts"}, over that alone",
            mine.any? ? mine.median("p99") / mine.median("alone_p99") : nil, MIXED, unit: " ×",
            beside: mine.failure || "#{Units.time(mine.median("alone_p99"))} alone, #{mine.median("rate").round}/s#{disturbed(mine)}")
        end
      end

      def burst
        LAYERS.keys.filter_map do |layer|
          id = Row.new(layer:, work: "crowd", round_trip: 0.001, fibers: Database::BURST).id
          mine = of(id, OURS) or next
          Bar.at_most("#{LAYERS.fetch(layer)}: memory of each of #{Database::BURST} fibers that wait", mine.any? ? mine.median("bytes") / 1024 : nil, BURST, unit: " KiB",
            beside: mine.failure || "all done in #{Units.time(mine.median("wall"))}")
        end
      end

      def finds(milliseconds)
        id = Row.new(layer: "active_record", work: "find", round_trip: milliseconds / 1000.0, fibers: 1000).id
        [id, of(id, OURS)]
      end

      def rate(id, mine, name, times, distance)
        pool = of(id, name) or return
        Bar.at_least("find, #{distance}, 1,000 fibers: rate beside #{name}", ratio(mine, pool, :median, "rate"), times, unit: " ×",
          beside: beside(mine, pool) { "#{mine.median("rate").round}/s and #{pool.median("rate").round}/s" })
      end

      def of(id, name) = @results.find { |result| result.cell.id == id && result.cell.contestant.name == name }

      def ratio(mine, other, figure, name) = (mine.any? && other.any?) ? mine.public_send(figure, name).fdiv(other.public_send(figure, name)) : nil

      def beside(mine, other) = mine.failure || other.failure || "#{yield}#{disturbed(mine, other)}"

      # Then only processor time is of worth.
      def disturbed(*results) = (results.any? { |result| (result.median("others") || 0) > DISTURBED }) ? ", disturbed" : ""
    end
  end
end
