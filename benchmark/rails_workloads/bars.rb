# frozen_string_literal: true

# The bars of NeverBlock in the workloads of 2008, and the figures.
#
#   Bench::RailsWorkloads::Bars.new(rows, results).all.map(&:title)     # => ["one in 10 sleeps, 200 at once: rate beside puma 12x1", ...]
require_relative "../bench/bar"
require_relative "../bench/units"
require_relative "limit"

module Bench
  class RailsWorkloads < Rails
    class Bars
      SHARE = 0.9 # of the arithmetic limit
      MEMORY = 0.25 # of as many processes'

      # @param rows [Array<Row>]
      # @param results [Array<Result>]
      def initialize(rows, results)
        @rows = rows
        @results = results
      end

      # @return [Array<Bar>]
      def all = @rows.select(&:judged?).flat_map { |row| ours(row).flat_map { |mine| of(row, mine) } }

      # @param row [Row]
      # @param result [Result]
      # @return [Float, nil] the share of the arithmetic limit that was reached
      def self.share(row, result)
        return unless result.any?
        Limit.seconds(row, connections: result.cell.contestant.connections, cpu: result.per_operation("cpu")) / result.median("wall")
      end

      private

      def results(row) = @results.select { |result| result.cell.id == row.id }

      def ours(row) = results(row).select { |result| result.cell.contestant.library == "neverblock" }

      def of(row, mine)
        peers = results(row).select { |result| result.cell.contestant.library == "puma" && result.cell.contestant.connections == mine.cell.contestant.connections }
        [*(peers.flat_map { |peer| beside(row, mine, peer) } + [limit(row, mine)] if sleeping?(row, mine)), *memory(row, mine, peers), *failures(row, mine)]
      end

      # Without a measurement the bars are short.
      def sleeping?(row, mine) = !mine.any? || Limit.sleeping?(row, connections: mine.cell.contestant.connections, cpu: mine.per_operation("cpu"))

      def beside(row, mine, peer)
        Bar.at_least("#{title(row, mine)}: rate beside #{peer.cell.contestant}", (mine.median("rate") / peer.median("rate") if mine.any? && peer.any?), 1.0, unit: " ×",
          beside: mine.failure || peer.failure || "#{seconds(mine)} and #{seconds(peer)}")
      end

      def limit(row, mine)
        Bar.at_least("#{title(row, mine)}: share of the limit", Bars.share(row, mine), SHARE, unit: " ×", beside: mine.failure || seconds(mine))
      end

      # Where they do the same at the same speed: the heaviest workload.
      def memory(row, mine, peers)
        return [] unless row.every == @rows.map(&:every).min && mine.cell.contestant.connections == 12
        peers.select { |peer| peer.cell.contestant.processes == 12 }.map do |peer|
          Bar.at_most("#{title(row, mine)}: PSS beside #{peer.cell.contestant}", (mine.median("memory") / peer.median("memory").to_f if mine.any? && peer.any?), MEMORY, unit: " ×",
            beside: mine.failure || peer.failure || [mine, peer].map { |result| Units.bytes(result.median("memory")) }.join(" and "))
        end
      end

      def failures(row, mine)
        return [] unless row.concurrency == CONCURRENCY.max
        [Bar.at_most("#{title(row, mine)}: failures", mine.samples.map { |sample| sample["errors"] }.max, 0, unit: "", beside: mine.failure)]
      end

      def title(row, mine) = "#{row.title}, #{mine.cell.contestant.connections} connections"

      def seconds(result) = format("%.2f s", result.median("wall"))
    end
  end
end
