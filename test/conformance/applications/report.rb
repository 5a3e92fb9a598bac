# frozen_string_literal: true

require_relative "../source_tree"
require_relative "../report"

module Conformance
  module Applications
    # A section of docs/conformance.md for an application.
    #
    #   Report.new(application, comparison, suite, time: 900).write
    class Report < Conformance::Report
      UNITS = {"cpu" => "ms", "rate" => "", "p50" => "ms", "p99" => "ms", "pss" => "MiB"}.freeze
      TITLES = {"cpu" => "processor time a request", "rate" => "requests/s", "p50" => "p50", "p99" => "p99", "pss" => "PSS"}.freeze

      # @param application [Application]
      # @param comparison [Comparison] after its call
      # @param suite [SuiteRun, nil] after its call
      # @param time [Numeric] seconds
      def initialize(application, comparison, suite, time:)
        @application = application
        @comparison = comparison
        @suite = suite
        @time = time
      end

      # @return [String] the section
      def text = section

      private

      def title = "## Application: #{@application.name}"

      def section = [title, "", about, "", *table, "", *(@suite ? @suite.lines : ["Its own suite was not run.", ""]), *answers].join("\n").strip

      def about
        "`#{RUBY_DESCRIPTION}`, #{@application.database.title}, #{rounds} rounds, #{@comparison.samples.values.first.first.fetch("requests")} requests each, " \
          "#{Comparison::VISITORS} visitors at once, #{Time.now.utc.strftime("%F")}, #{@time.round} s. Made by `#{@application.variable}=/path rake conformance:applications`."
      end

      def rounds = @comparison.samples.values.first.size

      def table
        contestants = @comparison.samples.keys
        peers = contestants.reject(&:ours?)
        heads = ["", *contestants.map(&:name), *peers.map { |peer| "beside #{peer}" }]
        rows = Comparison::FIGURES.map { |figure, least| [TITLES.fetch(figure), *contestants.map { |contestant| value(figure, contestant) }, *peers.map { |peer| ratio(figure, peer, least) }] }
        ["| #{heads.join(" | ")} |", "|---|#{"--:|" * (heads.size - 1)}", *rows.map { |row| "| #{row.join(" | ")} |" }]
      end

      def value(figure, contestant)
        median = @comparison.median(figure, contestant)
        case UNITS.fetch(figure)
        when "ms" then format("%.1f ms", median * 1000)
        when "MiB" then format("%d MiB", median / 1_048_576)
        else format("%.1f", median)
        end
      end

      def ratio(figure, peer, least) = @comparison.ratio(figure, peer).then { |ratio| ratio.within?(1.0, least:) ? ratio.to_s : "#{ratio}, short" }

      def answers
        mistakes = @comparison.mistakes
        return ["All answers were the same, and what the visitors expected."] if mistakes.empty?
        ["#{mistakes.size} answers were not as expected:", "", *mistakes.tally.first(10).map { |mistake, number| "- #{number} × `#{mistake.tr("`\n", "' ")[0, 300]}`" }]
      end
    end
  end
end
