# frozen_string_literal: true

require_relative "../source_tree"
require_relative "../report"

module Conformance
  module Gems
    # A section of docs/conformance.md for the suites of gems.
    #
    #   Report.new(runs, time: 60).write
    class Report < Conformance::Report
      # @param runs [Array<GemRun>] of all gems
      # @param time [Numeric] seconds
      def initialize(runs, time:)
        @runs = runs
        @time = time
      end

      private

      def title = "## Gems that use Active Record"

      def section
        [title, "", "`#{RUBY_DESCRIPTION}`, PostgreSQL #{@runs.first.postgres}, #{Time.now.utc.strftime("%F")}, #{@time.round} s.", "",
          "| gem | commit | Active Record | stock | failed | pending | with ours | failed | pending | differ |", "|---|---|---|#{"--:|" * 7}",
          *@runs.map { |run| "| #{row(run).join(" | ")} |" }, *notes].join("\n")
      end

      def row(run)
        counts = [run.stock, run.ours].flat_map { |tests| [tests.size, *%w[failed pending].map { |status| tests.values.count { |test| test["status"] == status } }] }
        ["#{run.name} #{run.version}", "`#{run.commit}`", run.active_record, *counts, run.failures.size]
      end

      def notes
        differ = @runs.flat_map { |run| run.failures.map { |test, message| "- #{run.name}: `#{test}`: #{run.reasons[test] || message}" } }
        differ.empty? ? ["", "Every test has the same result with both."] : ["", "Another result with ours:", "", *differ]
      end
    end
  end
end
