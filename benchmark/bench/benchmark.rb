# frozen_string_literal: true

# What all benchmarks have in common: they choose rows and contestants, measure each row with each contestant in every round,
# and report. One that only has figures is this, and its name in catalogue.rb:
#
#   class Bench::Hops
#     include Bench::Benchmark
#
#     Row = Data.define(:id, :title)
#     ROWS = [Row.new("queue_hop", "a queue hop")].freeze
#     CONTESTANTS = Bench::Contestant.of("neverblock", "threads").freeze
#     TABLES = {"Wall time of each" => Bench::Figures.time_each("wall")}.freeze
#     RATIOS = {"Wall time" => "wall"}.freeze
#
#     private
#
#     def sample(_place, row, contestant) = Bench::ChildProcess.new("hops/child.rb", contestant, row.id, operations: 1_000).measure
#   end
#
#   Bench::Hops.new(options).run      # => Bench::Report
#
# A benchmark with more to tell has a Report of its own, a subclass of Bench::Report.
require_relative "cell"
require_relative "child_process"
require_relative "contestant"
require_relative "failure"
require_relative "figures"
require_relative "machine"
require_relative "report"
require_relative "rounds"

module Bench
  module Benchmark
    Report = Bench::Report
    TABLES = {}.freeze
    RATIOS = {}.freeze
    SECONDS = QUICK_SECONDS = nil # of a measurement, where it is one of a time
    NAMED = 20 # rows that a message names; of more, the first and the last

    # @param options [Options]
    def initialize(options)
      @options = options
      @seconds = options.seconds || (options.quick? ? self.class::QUICK_SECONDS : self.class::SECONDS)
    end

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      reason = missing
      raise Failure, "bin/bench #{@options.names.first} cannot run here: #{reason}." if reason
      raise Failure, "No row with a contestant is left. Contestants: #{all_contestants.join(", ")}; rows: #{row_names}." if fields.empty?
      Machine.raise_open_files
      results, notes = within { |place| [measure(place), notes(place)] }
      report(results, notes)
    end

    # @return [Array<#id, #title>] the rows that are asked for
    def rows = @rows ||= @options.choose(self.class::ROWS) { |row| !@options.quick? || quick?(row) }

    # @return [Array<Array(Object, Contestant)>] what is measured: rows and contestants
    def fields
      @fields ||= rows.flat_map do |row|
        contestants(row).select { |contestant| @options.wants_contestant?(contestant.name) }.map { |contestant| [row, contestant] }
      end
    end

    private

    # @return [String, nil] what is missing here
    def missing = nil

    # @param row [Object]
    # @return [Array<Contestant>] those that the row can be measured with
    def contestants(_row) = self.class::CONTESTANTS

    def all_contestants = self.class::ROWS.flat_map { |row| contestants(row) }.uniq

    def row_names
      names = self.class::ROWS.map(&:id)
      (names.size > NAMED) ? "#{names.first}, … #{names.last}" : names.join(", ")
    end

    # @param row [Object]
    # @return [Boolean] whether --quick has it
    def quick?(row) = !row.respond_to?(:quick?) || row.quick?

    # Yields what everything is measured in, such as a database that runs.
    def within = yield

    # @return [Array<Result>]
    def measure(place) = Rounds.measure(cells(place), rounds: @options.rounds)

    def cells(place) = fields.map { |row, contestant| cell(row, contestant) { sample(place, row, contestant) } }

    def cell(row, contestant, **traits, &) = Cell.new(group(row), contestant, id: row.id, **traits, &)

    # @return [String] the name of those that are measured in turns
    def group(row) = row.title

    # @param place [Object] see within
    # @return [Hash{String=>Object}] the figures of one measurement
    # @raise [Failure]
    def sample(_place, _row, _contestant) = raise(NotImplementedError, "#{self.class}#sample is to measure a row with a contestant")

    # @return [Array<String>] what to tell beside the figures
    def notes(_place) = []

    def report(results, notes, rounds: @options.rounds)
      self.class::Report.new(rows:, results:, rounds:, seconds: @seconds, notes:, tables: self.class::TABLES, ratios: self.class::RATIOS)
    end
  end
end
