# frozen_string_literal: true

require_relative "../source_tree"
require_relative "../report"

module Conformance
  module HttpCache
    # A section of docs/conformance.md for the suite http-cache-tests.
    #
    #   Report.new(package, runs).write
    class Report < Conformance::Report
      # @param package [Package]
      # @param runs [Array<Run>] the first one is ours
      def initialize(package, runs)
        @package = package
        @runs = runs
      end

      # @return [String]
      def section
        [title, "", "#{"A checkout, #{@package.version}, " if @package.checkout?}`#{RUBY_DESCRIPTION}`, #{Time.now.utc.strftime("%F")}, #{@runs.sum(&:time).round} s.", "",
          "| | version | required | optimal | behaviour |", "|---|---|--:|--:|--:|", *@runs.map { |run| row(run) }, "", WORDS, "", *groups, *notes].join("\n")
      end

      private

      WORDS = <<~TEXT.strip
        *required* is what the RFC demands, as the suite's authors read it; *optimal* is what a good cache does, and need not do; of *behaviour* no result is wrong. A test counts only if those pass on which it depends. *NeverBlock* has `heuristic_ttl:` and `statuses:`, which allow what it does only if told to; *fewer options* has `pass_headers: ["*"]` alone, which the suite's client needs. nginx and Varnish have the configuration of the suite's authors.
      TEXT
      private_constant :WORDS

      # A checkout's section takes the place of another checkout's.
      def title = "## HTTP caches: http-cache-tests#{@package.checkout? ? ", the newest" : " #{@package.version}"}"

      def row(run) = "| #{run.contestant.title} | #{run.contestant.version} | #{%w[required optimal check].map { |kind| share(run.verdicts.passed(kind), run.verdicts.of(kind)) }.join(" | ")} |"

      def share(passed, all) = all.empty? ? "" : "#{passed.size} of #{all.size}"

      # Required and optimal tests of each part of the suite.
      def groups
        names = %w[required optimal].flat_map { |kind| @runs.first.verdicts.of(kind).map(&:group) }.uniq
        titles = @runs.map { |run| run.contestant.title }
        ["Of each part, required and optimal:", "", "| | #{titles.flat_map { |title| [title, ""] }.join(" | ")} |", "|---|#{"--:|" * (2 * @runs.size)}",
          *names.map { |name| "| #{name} | #{@runs.flat_map { |run| cells(run.verdicts, name) }.join(" | ")} |" }]
      end

      def cells(verdicts, name)
        %w[required optimal].map { |kind| share(*[verdicts.passed(kind), verdicts.of(kind)].map { |tests| tests.select { |test| test.group == name } }) }
      end

      def notes
        lines = %w[required optimal].flat_map do |kind|
          reasons = Verdicts.exclusions(@package).fetch(kind, {}).group_by { |_, reason| reason }
          ["", "Excluded of #{kind} tests:", "", *reasons.map { |reason, tests| "- #{tests.map { |test, _| "`#{test}`" }.join(", ")}: #{reason}" }]
        end
        failed = @runs.first.verdicts.unexpected
        [*lines, *(["", "Failed:", "", *failed.map { |line| "- `#{line}`" }] if failed.any?)]
      end
    end
  end
end
