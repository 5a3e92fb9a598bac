# frozen_string_literal: true

# The bars of NeverBlock with a Rails app, and the figures.
#
#   Bench::Rails::Bars.new(results).all.map(&:title)     # => ["hello: rate beside puma 3", ...]
require_relative "../bench/bar"
require_relative "../servers/turns"

module Bench
  class Rails
    class Bars
      MIXED = 2.0 # times the p99 alone
      BURST = 1.3 # seconds for ten requests of one

      # @param results [Array<Result>]
      def initialize(results)
        @results = results
      end

      # @return [Array<Bar>]
      def all = [*rates, *mixed, *burst, *memory]

      private

      def of(id) = @results.select { |result| result.cell.id == id }

      def ours(id) = of(id).find { |result| ours?(result) }

      def ours?(result) = result.cell.contestant.library == "neverblock"

      def peers(id) = of(id).select { |result| !ours?(result) && result.any? }

      def rates
        result = ours("turns") or return []
        peers("turns").map do |peer|
          Bar.at_least("hello: rate beside #{peer.cell.contestant}, turn by turn", Servers::Turns.ratio(result, peer) { |turn| turn["rate"] }, 1.0, unit: " ×",
            beside: result.failure || format("by processor time %.2f ×", Servers::Turns.ratio(peer, result) { |turn| turn["cpu"].fdiv(turn["operations"]) }))
        end
      end

      def mixed
        result = ours("beside") or return []
        {"queries" => "queries of 50 ms", "seconds" => "ten of a second"}.map do |figure, what|
          Bar.at_most("fast ones' p99 beside #{what}, over that alone", result.any? ? result.median("#{figure}_p99") / result.median("alone_p99") : nil,
            MIXED, unit: " ×", beside: result.failure)
        end
      end

      def burst
        result = ours("together") or return []
        [Bar.at_most("ten requests of a second at once", result.median("wall"), BURST, unit: " s", beside: result.failure)]
      end

      # The most that any row took: so much memory the process needs.
      def memory
        most = @results.select(&:any?).group_by { |result| result.cell.contestant }
          .transform_values { |results| results.filter_map { |result| result.median("memory") }.max }
        mine = most.find { |contestant, _| contestant.library == "neverblock" }&.last
        most.select { |contestant, _| contestant.library == "puma" }.map do |contestant, bytes|
          Bar.at_most("PSS, the most of all rows, beside #{contestant}'s", mine&.fdiv(bytes), 1.0, unit: " ×")
        end
      end
    end
  end
end
