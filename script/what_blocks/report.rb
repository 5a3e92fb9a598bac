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
      NeverBlock. `rake what_blocks` writes this page: it makes every call in a
      fiber beside another one that ticks. `rake what_blocks:check` fails if a
      call behaves differently. Do not edit the page.

      - **parks**: the fiber waits, the others continue. In brackets, the methods of
        `NeverBlock::Scheduler` in which it waited. `between_steps`: the call works on
        the loop's thread, and lets the others run every millisecond or two.
      - **offloaded**: the same, while a thread beside the loop does the work.
      - **inline**: done in place on the loop's thread, without a turn of the loop,
        because every other way costs more. On a slow file system, such as a
        network's, it takes as long as the file system does.
      - **BLOCKS**: every fiber of the loop is stopped until the call returns. In
        brackets, whether `NeverBlock.offload { }`, which makes the call on a
        thread, helps. It helps if the call releases Ruby's lock (the GVL) while it
        waits or works, as Ruby code does ten times a second.

      Calls that compute are measured at a size at which they take some tenths of a
      second; small ones end too soon to matter.
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
