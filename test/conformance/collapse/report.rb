# frozen_string_literal: true

require_relative "../source_tree"
require_relative "../report"

module Conformance
  module Collapse
    # A section of docs/conformance.md for requests that wait for one response.
    #
    #   Report.new(runs, time: 200).write
    class Report < Conformance::Report
      # @param runs [Array<Run>]
      # @param time [Numeric] seconds
      def initialize(runs, time:)
        @runs = runs
        @time = time
      end

      # @return [String]
      def section
        versions = @runs.map { |run| "#{run.contestant.title} #{run.contestant.version}" }.join(", ")
        [title, "", "#{versions}, `#{RUBY_DESCRIPTION}`, #{Time.now.utc.strftime("%F")}, #{@time.round} s.", "", WORDS, "",
          "| case | #{@runs.map { |run| run.contestant.title }.join(" | ")} |", "|---|#{"---|" * @runs.size}",
          *CASES.map { |one| "| #{one.name} | #{@runs.map { |run| cell(one, run.results[one.name]) }.join(" | ")} |" }].join("\n")
      end

      private

      WORDS = <<~TEXT.strip
        #{CLIENTS} clients ask for the same URL while the first response is held back. The number is how often the origin server was asked for all of them; *in turn*: one request after the other, which nginx asks for each half a second; *shared*: several clients have a response that was made for one of them; *errors*: so many clients have a response with 5xx. NeverBlock has no options but the cache, nginx `proxy_cache_lock`, `proxy_cache_revalidate` and `proxy_cache_background_update`, Varnish its own rules.
      TEXT
      private_constant :WORDS

      def title = "## Requests that wait, beside nginx and Varnish"

      def cell(one, result)
        errors = result.bodies.count { |body| body.start_with?("5", /[A-Z]/) }
        notes = [("in turn" if result.calls == CLIENTS && result.most == 1), ("**shared**" if one.own? && result.shared.positive?),
          ("#{errors} #{(errors == 1) ? "error" : "errors"}" if errors.positive?)]
        [result.calls, *notes.compact].join(", ")
      end
    end
  end
end
