# frozen_string_literal: true

# The tables of the runtime benchmark: figures, ratios against the bars, and what
# lies beside wall time.
#
#   Bench::Runtime::Report.new(rows:, results:, rounds: 7).markdown
require_relative "../bench/load_path"
require_relative "../bench/report"

module Bench
  class Runtime
    class Report < Bench::Report
      PEER = "async"
      EMPTY_RUN_LIMIT = 20e-6 # seconds
      NOT_SLOWER = 1.05 # times the instructions of the other checkout; a count differs by a percent or two between runs

      # Of all rows, then of those that have it.
      FIGURES = {
        "Processor time per operation." => Figures.time_each("cpu"),
        "Objects allocated per operation, Ruby's own included; the rows \"hooks\" call the scheduler directly and show its own alone." => Figures.count_each("objects")
      }.freeze
      MORE = {
        "system_calls" => ["System calls per operation (in all, then the most frequent), counted by strace in a pass of their own.", Figures.system_calls],
        "instructions" => ["Instructions per operation, the kernel's left out, counted by valgrind in a pass of their own.", Figures.number("instructions")],
        "memory" => ["Memory per parked task, page tables included.", Figures.bytes("memory")]
      }.freeze

      # @return [Array<Bar>]
      def bars = @rows.flat_map { |row| row.bar ? ratio_bars(row) : [] } + empty_run_bars + own_object_bars + before_bars

      # @return [Hash{String=>String}] by the suffix of the file's name
      def charts = {"" => bar_chart("Wall time per operation: shorter is better", unit: Units.method(:time)) { |result| result.per_operation("wall") }}.compact

      private

      def head = "Wall time per operation, median of #{@rounds} rounds (± median deviation).\n"

      def body
        [table { |result| "#{Units.time(result.per_operation("wall"))} ±#{(result.spread("wall") * 100).round} %" },
          *FIGURES.flat_map { |title, figure| ["#{title}\n", table(&figure)] },
          *MORE.flat_map { |name, (title, figure)| more(name, title, figure) }]
      end

      def more(name, title, figure)
        rows = @rows.select { |row| of(row).any? { |result| result.latest(name) } }
        rows.empty? ? [] : ["#{title}\n", table(rows) { |result| result.latest(name) && figure.call(result) }]
      end

      def remarks
        threads = @rows.select { |row| row.threads != row.operations }.map { |row| "#{row.title}: only #{row.threads} threads." }
        [*threads, *failures]
      end

      # The best of the peer's selectors is what each engine is held against.
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
          Bar.at_most("objects, #{result.cell.row}, #{result.cell.contestant}", result.per_operation("objects")&.round(2), 0, unit: "", beside: result.failure)
        end
      end

      # Each engine against itself in the other checkout.
      def before_bars
        @rows.product(contestants.select { |contestant| contestant.root == LoadPath::ROOT }).filter_map do |row, contestant|
          before = contestant.name.sub("neverblock", "before")
          counts = [contestant.name, before].map { |name| find(row, name)&.latest("instructions") }
          Bar.at_most("not slower: #{row.title}, #{contestant}", counts.first / counts.last, NOT_SLOWER, unit: " ×", beside: "instructions against #{before}") if before != contestant.name && counts.all?
        end
      end

      def mine(workload) = @rows.select { |row| row.workload == workload }.flat_map { |row| of(row).select { |result| ours?(result) } }

      def ours?(result) = result.cell.contestant.library == "neverblock" && result.cell.contestant.root == LoadPath::ROOT
    end
  end
end
