# frozen_string_literal: true

# The tables of the runtime benchmark: figures, ratios against the bars, and what
# lies beside wall time.
#
#   RuntimeReport.new(rows:, results:, calls:, notes:, rounds:).markdown
require_relative "../bench/bar"
require_relative "../bench/markdown"
require_relative "../bench/svg"
require_relative "../bench/units"

module Bench
  class RuntimeReport
    PEER = "async"
    EMPTY_RUN_LIMIT = 20e-6 # seconds
    NOT_SLOWER = 1.05 # times the instructions of the other checkout; a count differs by a percent or two between runs

    # @param rows [Array<Runtime::Row>]
    # @param results [Array<Result>]
    # @param calls [Hash] system calls by [row, contestant]
    # @param instructions [Hash] by [row, contestant]; only where another checkout is measured too
    # @param notes [Array<String>]
    # @param rounds [Integer]
    def initialize(rows:, results:, calls:, notes:, rounds:, instructions: {})
      @rows = rows
      @results = results
      @calls = calls
      @instructions = instructions
      @notes = notes
      @rounds = rounds
    end

    # @return [Array<Bar>]
    def bars
      @rows.flat_map { |row| row.bar ? ratio_bars(row) : [] } + empty_run_bars + own_object_bars + before_bars
    end

    # @return [String]
    def markdown
      [
        "Wall time per operation, median of #{@rounds} rounds (± median deviation).\n",
        by_contestant { |result| "#{Units.time(result.per_operation("wall"))} ±#{(result.spread("wall") * 100).round} %" },
        "Processor time per operation.\n",
        by_contestant { |result| Units.time(result.per_operation("cpu")) },
        "Objects allocated per operation, Ruby's own included; the rows \"hooks\" call the scheduler directly and show its own alone.\n",
        by_contestant { |result| Units.count(result.per_operation("objects")) },
        (system_calls unless @calls.empty?),
        (instructions unless @instructions.empty?),
        (memory if @results.any? { |result| result.median("memory") }),
        failures
      ].compact.join("\n")
    end

    # @return [Hash{String=>String}] by the suffix of the file's name
    def charts
      groups = @rows.to_h { |row| [row.title, of(row).select(&:any?).to_h { |result| [result.cell.contestant.name, result.per_operation("wall")] }] }
      {"" => Svg.bars("Wall time per operation: shorter is better", groups.reject { |_, values| values.empty? },
        colors: contestants.to_h { |contestant| [contestant.name, contestant.color] }, unit: Units.method(:time))}
    end

    # @return [Hash] for JSON
    def to_h
      {rounds: @rounds, notes: @notes, results: @results.map(&:to_h),
       system_calls: @calls.map { |(row, contestant), calls| {row:, contestant:, calls:} },
       instructions: @instructions.map { |(row, contestant), count| {row:, contestant:, count:} }}
    end

    private

    def of(row) = @results.select { |result| result.cell.row == row.title }

    def contestants = @results.map { |result| result.cell.contestant }.uniq

    # Each engine is compared with the best of the peer's selectors.
    def ratio_bars(row)
      peer, ours = of(row).partition { |result| result.cell.contestant.library == PEER }
      best = peer.select(&:any?).min_by { |result| result.per_operation("wall") } or return []
      ours.select { |result| ours?(result) }.map do |result|
        figures = %w[wall cpu].map { |figure| result.any? && best.per_operation(figure) / result.per_operation(figure) }
        Bar.at_least("#{row.title}, #{result.cell.contestant}", figures.first || nil, row.bar,
          unit: "×", beside: result.any? ? format("against %s; by processor time %.2f ×", best.cell.contestant, figures.last) : result.failure)
      end
    end

    def empty_run_bars
      mine("empty_run").map do |result|
        Bar.at_most("#{result.cell.row}, #{result.cell.contestant}", result.per_operation("wall")&.*(1e6), EMPTY_RUN_LIMIT * 1e6, unit: " µs", beside: result.failure)
      end
    end

    def own_object_bars
      %w[hook_block hook_transfer hook_sleep].flat_map { |workload| mine(workload) }.map do |result|
        objects = result.per_operation("objects")
        Bar.at_most("objects, #{result.cell.row}, #{result.cell.contestant}", objects&.round(2), 0, unit: "", beside: result.failure)
      end
    end

    # Each engine against itself in the other checkout.
    def before_bars
      @instructions.filter_map do |(row, name), count|
        before = name.sub("neverblock", "before")
        next if before == name || !@instructions[[row, before]]
        Bar.at_most("not slower: #{row}, #{name}", count / @instructions[[row, before]], NOT_SLOWER, unit: " ×", beside: "instructions against #{before}")
      end
    end

    def instructions
      rows = @instructions.group_by { |(row, _), _| row }.map do |row, fields|
        [row, *contestants.map { |contestant| fields.to_h[[row, contestant.name]]&.round.to_s }]
      end
      "Instructions per operation, the kernel's left out, counted by valgrind in a pass of their own.\n\n" +
        Markdown.table(["", *contestants.map(&:name)], rows)
    end

    def mine(workload)
      @results.select { |result| result.cell.traits[:workload] == workload && ours?(result) }
    end

    def ours?(result) = result.cell.contestant.library == "neverblock" && result.cell.contestant.root == LoadPath::ROOT

    def by_contestant(&)
      Markdown.table(["", *contestants.map(&:name)], @rows.map { |row|
        [row.title, *contestants.map { |contestant| field(row, contestant, &) }]
      })
    end

    def field(row, contestant)
      result = of(row).find { |candidate| candidate.cell.contestant == contestant }
      return "" unless result
      result.any? ? yield(result) : "failed"
    end

    def system_calls
      rows = @calls.group_by { |(row, _), _| row }.map do |row, fields|
        [row, *contestants.map { |contestant| calls_of(fields.to_h, row, contestant) }]
      end
      "System calls per operation (in all, then the most frequent), counted by strace in a pass of their own.\n\n" +
        Markdown.table(["", *contestants.map(&:name)], rows)
    end

    def calls_of(fields, row, contestant)
      calls = fields.fetch([row, contestant.name]) { return "" }
      return "failed" unless calls
      return "0" if calls.empty?
      most = calls.sort_by { |_, number| -number }.first(3).map { |name, number| "#{name} #{Units.count(number)}" }
      "#{Units.count(calls.values.sum)} (#{most.join(", ")})"
    end

    def memory
      rows = @rows.select { |row| of(row).any? { |result| result.median("memory") } }
      "Memory per parked task, page tables included.\n\n" + Markdown.table(["", *contestants.map(&:name)], rows.map { |row|
        [row.title, *contestants.map { |contestant| field(row, contestant) { |result| Units.bytes(result.median("memory")) } }]
      })
    end

    def failures
      failed = @results.filter_map(&:trouble).map { |trouble| "- #{trouble}\n" }
      threads = @rows.select { |row| row.threads != row.operations }.map { |row| "- #{row.title}: only #{row.threads} threads.\n" }
      [*@notes.map { |note| "- #{note}\n" }, *threads, *failed].join
    end
  end
end
