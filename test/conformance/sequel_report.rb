# frozen_string_literal: true

require_relative "source_tree"
require_relative "report"

module Conformance
  # A section of docs/conformance.md for Sequel's own specs.
  #
  #   SequelReport.new(run, version: "5.106.0", time: 300).write
  class SequelReport < Report
    # @param run [SequelRun] a run of all files
    # @param version [String] of Sequel
    # @param time [Numeric] seconds
    def initialize(run, version:, time:)
      @run = run
      @version = version
      @time = time
    end

    private

    def title = "## Sequel #{@version}"

    def section
      rows = @run.results.map { |result| row(result) }
      all = rows.map { |row| row.drop(1) }.transpose.map(&:sum)
      [title, "", about, "", "| specs | plain | failed | with ours | failed | of these excluded |", "|---|#{"--:|" * 5}",
        *[*rows, ["**all**", *all]].map { |row| "| #{row.join(" | ")} |" }, *notes].join("\n")
    end

    def row(result)
      plain, ours = [result.plain, result.ours].map { |line| numbers(line) }
      [File.basename(result.file), plain[0], plain[1], ours[0], ours[1], result.excluded.size]
    end

    # @return [Array(Integer, Integer)] specs, and failed specs
    def numbers(line) = line ? [line[/(\d+) runs/, 1].to_i, line[/(\d+) failures/, 1].to_i + line[/(\d+) errors/, 1].to_i] : [0, 0]

    def about = "`#{RUBY_DESCRIPTION}`, PostgreSQL #{@run.postgres}, #{Time.now.utc.strftime("%F")}, #{@time.round} s."

    def notes
      excluded = @run.results.flat_map(&:excluded).group_by { |name| SequelRun::EXCLUDED.find { |start, _| name.start_with?(start) }.last }
      lines = excluded.map { |reason, names| "- #{names.map { |name| "`#{name}`" }.join(", ")}: #{reason}" }
      failed = @run.failures.map { |name| "- `#{name}`" }
      [*(["", "Excluded:", "", *lines] if lines.any?), *(["", "Failed with ours only:", "", *failed] if failed.any?)]
    end
  end
end
