# frozen_string_literal: true

# The tables of the delays benchmark: requests per second, how near the limit, and
# what a request costs.
#
#   DelaysReport.new(results:, requests: 1000, rounds: 3).markdown
require_relative "../bench/bar"
require_relative "../bench/contestant"
require_relative "../bench/markdown"
require_relative "../bench/svg"
require_relative "../bench/units"

module Bench
  class DelaysReport
    ACHIEVED = 0.9
    COST = 1.25
    # Requests per second in 2008, by milliseconds: blocking, best threads, NeverBlock.
    FOUNDING = {0 => [2400, 1050, 2360], 10 => [19, 800, 1997], 50 => [17, 670, 1837], 100 => [10, 536, 1656], 500 => [2, 415, 1031]}.freeze

    # @param results [Array<Result>]
    # @param requests [Integer] of each cell but the extrapolated ones
    # @param rounds [Integer]
    def initialize(results:, requests:, rounds:)
      @results = best_pools(results)
      @all = results
      @requests = requests
      @rounds = rounds
    end

    # @return [Array<Bar>]
    def bars
      ours = @results.select { |result| result.cell.contestant.library == "neverblock" }
      ours.flat_map do |result|
        title = "#{result.cell.row}, #{result.cell.contestant}"
        [Bar.at_least("share of the limit, #{title}", result.median("achieved"), ACHIEVED, unit: "", beside: result.failure || sharing(result)),
          Bar.at_most("cost of a request, #{title}", cost(result), COST, unit: " × blocking", beside: result.failure)]
      end
    end

    # @return [String]
    def markdown
      [
        "#{@requests} requests at once, median of #{@rounds} rounds. Requests per second:\n",
        table { |result| "#{"≈ " if extrapolated?(result)}#{result.median("rate").round}#{" (#{result.cell.traits[:pool]})" if result.cell.traits[:pool]}" },
        "For threads the best of pools of #{pools.join(", ")}, in brackets. ≈ is extrapolated from fewer requests, one after another.\n",
        "NeverBlock's advantage, and the founding table of 2008 (blocking, best threads, NeverBlock, advantage):\n",
        advantages,
        "Share of the limit reached (the limit: all processor time of the client, or that until its last request was sent plus the delay, whichever is more; with two clients, the slower one's):\n",
        table { |result| (result.cell.contestant.library == "blocking") ? "" : format("%.2f", result.median("achieved")) },
        "Processor time per request:\n",
        table { |result| extrapolated?(result) ? "" : Units.time(result.per_operation("cpu")) },
        "Objects per request:\n",
        table { |result| Units.count(result.per_operation("objects")) },
        "The back end was busy for at most #{(busiest * 100).round} % of a run, and held at most #{most_open} connections at once.\n",
        @all.filter_map(&:trouble).map { |trouble| "- #{trouble}\n" }.join
      ].join("\n")
    end

    # @return [Hash{String=>String}] by the suffix of the file's name
    def charts
      rows.group_by { |row| of(row).first.cell.traits[:clients] }.to_h do |clients, titles|
        groups = titles.to_h { |row| [row, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, result.median("rate")] }] }
        ["-#{clients}", Svg.bars("Requests per second, #{clients} client#{"s" if clients > 1}: longer is better",
          groups.reject { |_, values| values.empty? },
          colors: Contestant.all.to_h { |contestant| [contestant.name, contestant.color] }, unit: ->(rate) { rate.round.to_s })]
      end
    end

    # @return [Hash] for JSON
    def to_h = {rounds: @rounds, requests: @requests, results: @all.map(&:to_h)}

    private

    # Two clients and the back end on two processors get in each other's way whatever the library does.
    def sharing(result)
      return unless result.cell.traits[:clients] > 1
      format("%.2f of what the processors allow, shared with the back end", result.median("achieved_sharing"))
    end

    # The pool with the highest rate in one row.
    def best_pools(results)
      results.group_by { |result| [result.cell.row, result.cell.contestant] }.values.map do |same|
        same.max_by { |result| result.median("rate") || 0 }
      end
    end

    def rows = @results.map { |result| result.cell.row }.uniq

    def of(row) = @results.select { |result| result.cell.row == row }

    def contestants = @results.map { |result| result.cell.contestant }.uniq

    def find(row, library) = of(row).select { |result| result.cell.contestant.library == library && result.any? }.max_by { |result| result.median("rate") }

    def extrapolated?(result) = result.cell.traits[:requests] < @requests

    def pools = @all.filter_map { |result| result.cell.traits[:pool] }.uniq

    def table
      Markdown.table(["", *contestants.map(&:name)], rows.map { |row|
        [row, *contestants.map { |contestant|
          result = of(row).find { |candidate| candidate.cell.contestant == contestant }
          result.any? ? yield(result) : "failed"
        }]
      })
    end

    def advantages
      Markdown.table(["", "over the best threads", "over the best async", "over blocking", "in 2008"], rows.map { |row|
        ours = find(row, "neverblock")
        [row, *%w[threads async blocking].map { |library| percent(ours, find(row, library)) }, founding(of(row).first.cell.traits)]
      })
    end

    def percent(ours, other)
      return "" unless ours && other
      format("%+.0f %%", (ours.median("rate") / other.median("rate") - 1) * 100)
    end

    def founding(traits)
      return "" unless traits[:clients] == 1
      blocking, threads, neverblock = FOUNDING.fetch(traits[:delay])
      format("%d, %d, %d, %+d %%", blocking, threads, neverblock, ((neverblock.fdiv(threads) - 1) * 100).round)
    end

    # Against the blocking client without delay and alone, which is where it costs least.
    def cost(result)
      blocking = @results.find { |candidate|
        candidate.cell.contestant.library == "blocking" && candidate.cell.traits.values_at(:clients, :delay) == [1, 0]
      }
      result.per_operation("cpu") / blocking.per_operation("cpu") if blocking&.any? && result.any?
    end

    def busiest = @all.filter_map { |result| result.median("back_end_busy") }.max || 0

    def most_open = @all.filter_map { |result| result.median("most_open") }.max.to_i
  end
end
