# frozen_string_literal: true

# The table of the proxied benchmark.
#
#   ProxiedReport.new(results:, rounds: 5, seconds: 2.0).markdown
require_relative "../bench/markdown"
require_relative "../bench/statistics"
require_relative "../bench/units"

module Bench
  class ProxiedReport
    # @param results [Array<Result>]
    # @param rounds [Integer]
    # @param seconds [Numeric]
    def initialize(results:, rounds:, seconds:)
      @results = results
      @rounds = rounds
      @seconds = seconds
    end

    # @return [Array<Bar>] none: it is a question, not a bar
    def bars = []

    # @return [String]
    def markdown
      ["32 connections to nginx; nginx and the server on one core, the client on another; median of #{@rounds} rounds of " \
        "#{Units.time(@seconds)} each, in fresh processes after a warm-up (± median deviation).\n",
        Markdown.table(["", "requests/s by TCP", "by socket", "ratio", "CPU per request by TCP (server + nginx)", "by socket", "ratio"], rows),
        @results.filter_map(&:trouble).map { |note| "- #{note}\n" }.join].join("\n")
    end

    # @return [Hash{String=>String}] none
    def charts = {}

    # @return [Hash] for JSON
    def to_h = {rounds: @rounds, seconds: @seconds, results: @results.map(&:to_h)}

    private

    def rows
      @results.group_by { |result| result.cell.row }.filter_map do |row, results|
        tcp, unix = %w[tcp unix].map { |name| results.find { |result| result.cell.contestant.name == name } }
        next unless tcp.any? && unix.any?
        [row, rate(tcp), rate(unix), ratio(unix.median("rate"), tcp.median("rate")), cpu(tcp), cpu(unix), ratio(total(unix), total(tcp))]
      end
    end

    def rate(result) = "#{result.median("rate").round} ±#{(Statistics.spread(result.samples.map { |sample| sample["rate"] }) * 100).round} %"

    def cpu(result)
      app, nginx = %w[app_cpu nginx_cpu].map { |figure| result.per_operation(figure) }
      "#{Units.time(total(result))} (#{Units.time(app)} + #{Units.time(nginx)})"
    end

    # The medians' sum is not the sums' median.
    def total(result) = Statistics.median(result.samples.map { |sample| (sample["app_cpu"] + sample["nginx_cpu"]) / sample["operations"] })

    def ratio(one, other) = format("%.2f", one.fdiv(other))
  end
end
