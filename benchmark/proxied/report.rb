# frozen_string_literal: true

# The table of the proxied benchmark.
#
#   Bench::Proxied::Report.new(rows:, results:, rounds: 5, seconds: 2.0).markdown
require_relative "../bench/report"

module Bench
  class Proxied
    class Report < Bench::Report
      HEAD = ["", "requests/s by TCP", "by socket", "ratio", "CPU per request by TCP (server + nginx)", "by socket", "ratio"].freeze
      RATE = Figures.steady("rate")

      private

      def head
        "32 connections to nginx; nginx and the server on one core, the client on another; median of #{@rounds} rounds of " \
          "#{Units.time(@seconds)} each, in fresh processes after a warm-up (± median deviation).\n"
      end

      def body = [Markdown.table(HEAD, @rows.filter_map { |row| line(row) })]

      def line(row)
        tcp, unix = both = %w[tcp unix].map { |name| find(row, name) }
        return unless both.all? { |result| result&.any? }
        [row.title, *both.map(&RATE), ratio(unix.median("rate"), tcp.median("rate")), *both.map { |result| cpu(result) }, ratio(total(unix), total(tcp))]
      end

      def cpu(result)
        app, nginx = %w[app_cpu nginx_cpu].map { |figure| result.per_operation(figure) }
        "#{Units.time(total(result))} (#{Units.time(app)} + #{Units.time(nginx)})"
      end

      # The medians' sum is not the sums' median.
      def total(result) = Statistics.median(result.samples.map { |sample| (sample["app_cpu"] + sample["nginx_cpu"]) / sample["operations"] })

      def ratio(one, other) = format("%.2f", one.fdiv(other))
    end
  end
end
