# frozen_string_literal: true

require_relative "catalogue"
require_relative "results"

module WhatBlocks
  # Writes docs/what-blocks.md out of the results:
  #
  #   Report.new(Catalogue.rows, Results.all).to_s
  #
  # Nothing in it depends on how long things took, so that the same behaviour
  # always gives the same document.
  class Report
    HEAD = <<~MARKDOWN
      # What blocks

      What each core call does to the other fibers of the loop when it is made inside
      NeverBlock. This page is made by `rake what_blocks`, which makes every call in a
      fiber beside another one that ticks, and `rake what_blocks:check` fails where a
      call behaves otherwise than it says here. Do not edit it.

      - **parks**: the fiber waits, the others go on. In brackets, the methods of
        `NeverBlock::Scheduler` in which it waited; `between_steps`: the call works on
        the loop's thread, and gives the others their turn every millisecond or two.
      - **offloaded**: the same, and a thread beside the loop does the work meanwhile.
      - **inline**: done on the loop's thread, at once and without a turn of the loop,
        because that is cheaper than any other way. On a file system that is slow to
        answer (a network's) it takes as long as that does.
      - **BLOCKS**: every fiber of the loop stands still until the call returns. In
        brackets, whether `NeverBlock.offload { }` helps, which makes the call on a
        thread: it does where the call lets go of Ruby's lock (the GVL) while it waits or
        works, as Ruby code does ten times a second, and not where it keeps it.

      Calls for the processor are measured at a size where they take some tenths of a
      second; small ones are over before anybody could notice.
    MARKDOWN

    # @param rows [Array<Row>]
    # @param results [Array<Results>]
    def initialize(rows, results)
      @rows = rows
      @results = results
    end

    # @return [String] the document
    def to_s
      [HEAD, measured, blocking, *@rows.group_by(&:group).map { |group, rows| table(group, rows) }].join("\n")
    end

    private

    def measured
      lines = @results.map { |result| "- Ruby #{result.ruby}: #{result.engines.join(", ")}" }
      "Measured on Linux, on these engines:\n\n#{lines.join("\n")}\n"
    end

    # The short answer to the page's question.
    def blocking
      worst = @rows.select { |row| cells(row).any? { |cell| cell.include?("**") } }
      lines = worst.map { |row| "- #{name(row)}#{", #{row.situation}" if row.situation}#{where(row)}" }
      "## In short: these stop the loop\n\n#{lines.join("\n")}\n"
    end

    # Where not every Ruby is concerned, which ones are.
    def where(row)
      concerned = @results.select { |result| cell(row, result).include?("**") }
      " (Ruby #{concerned.map(&:series).join(", ")})" unless concerned == @results
    end

    # One column for each Ruby, or one for all where they agree on every row.
    def table(group, rows)
      alike = rows.all? { |row| cells(row).uniq.size == 1 }
      columns = alike ? @results.take(1) : @results
      heads = alike ? ["Ruby #{@results.map(&:series).join(", ")}"] : @results.map { |result| "Ruby #{result.series}" }
      lines = rows.map { |row| line(name(row), row.situation, *columns.map { |result| cell(row, result) }) }
      ["## #{group}", "", line("Call", "When", *heads), line(*Array.new(heads.size + 2, "---")), *lines, ""].join("\n")
    end

    def line(*cells) = "| #{cells.map { |cell| cell.to_s.gsub("|", "\\|") }.join(" | ")} |"

    def name(row) = row.call.include?("`") ? "`` #{row.call} ``" : "`#{row.call}`"

    def cells(row) = @results.map { |result| cell(row, result) }

    def cell(row, result)
      verdicts = result.verdicts(row.key)
      return words(verdicts.values.first) if verdicts.size == 1
      verdicts.map { |engines, verdict| "#{engines.join(", ")}: #{words(verdict)}" }.join("<br>")
    end

    def words(verdict)
      return "not measured" unless verdict
      kind, hooks = verdict.split(": ")
      return "**BLOCKS** (`offload` #{kind.delete_prefix("BLOCKS, offload ")})" if kind.start_with?("BLOCKS,")
      kind = "**#{kind}**" unless kind.match?(/\A(parks|offloaded|inline|raises)/)
      hooks ? "#{kind} (#{hooks.split(", ").map { |hook| "`#{hook}`" }.join(", ")})" : kind
    end
  end
end
