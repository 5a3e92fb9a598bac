# frozen_string_literal: true

module Conformance
  module Rails
    # A section of docs/conformance.md for each tested version of Rails.
    class Report < Conformance::Report
      private

      def title = "## Active Record #{@session.tree.version}#{@session.database.suffix}"

      def row(name, runs) = super(name.empty? ? "test/cases" : name, runs)

      def about = "#{"All files, " if @session.whole?}`#{RUBY_DESCRIPTION}`, #{@session.engine}, #{@session.server}, #{Time.now.utc.strftime("%F")}, #{@session.time.round} s."

      # Groups tests with the same reason.
      def notes
        excluded = @session.runs.values.flatten.flat_map(&:verdicts).select { |verdict| verdict.kind == "excluded" }.group_by(&:message)
        lines = excluded.map { |reason, verdicts| "- #{verdicts.map { |verdict| "`#{verdict.test}`" }.first(3).join(", ")}#{" and #{verdicts.size - 3} more of it" if verdicts.size > 3}: #{reason}" }
        [*(["", "Excluded:", "", *lines] if lines.any?), *listing("stock", "Fail on the machine of this run with Rails' own adapter too:"), *listing("failed", "Failed:")]
      end

      def listing(kind, heading)
        tests = @session.runs.values.flatten.flat_map(&:verdicts).select { |verdict| verdict.kind == kind }.map { |verdict| "- `#{verdict.test}`" }
        tests.empty? ? [] : ["", heading, "", *tests.sort]
      end
    end
  end
end
