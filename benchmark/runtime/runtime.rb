# frozen_string_literal: true

# bin/bench runtime: what each of the runtime's moves costs, on every engine,
# beside async and threads.
#
#   Bench::Runtime.new(options).run      # => Bench::Report
require_relative "../bench/cell"
require_relative "../bench/child_process"
require_relative "../bench/contestant"
require_relative "../bench/instructions"
require_relative "../bench/machine"
require_relative "../bench/progress"
require_relative "../bench/rounds"
require_relative "../bench/system_calls"
require_relative "runtime_report"

module Bench
  class Runtime
    SCRIPT = "runtime/child.rb"
    ALL = %w[neverblock async threads].freeze
    LOOPS = %w[neverblock async].freeze

    # title; workload; libraries; bar: how many times async's speed is asked for;
    # operations: exactly so many, else as many as take the time; threads: so many there;
    # variables: of the environment that all its libraries are measured in.
    Row = Data.define(:title, :workload, :libraries, :bar, :operations, :threads, :variables) do
      def initialize(title:, workload:, libraries: ALL, bar: nil, operations: nil, threads: operations, variables: {}) = super
    end

    # Ruby gives the memory of a finished fiber's stack back to the system, unless it is told to keep it.
    STACKS_KEPT = {"RUBY_SHARED_FIBER_POOL_FREE_STACKS" => "0"}.freeze

    ROWS = [
      Row.new(title: "spawn + finish, one by one", workload: "spawn", bar: 1.5),
      Row.new(title: "spawn + value, 30,000 one by one", workload: "spawn_value", libraries: LOOPS, operations: 30_000, bar: 2.0),
      Row.new(title: "spawn + value, stacks kept", workload: "spawn_value", libraries: LOOPS, operations: 30_000, bar: 2.0, variables: STACKS_KEPT),
      Row.new(title: "spawn + finish, 100 at a time", workload: "spawn_burst", bar: 1.5),
      Row.new(title: "yield, alone", workload: "yield_alone", bar: 2.0),
      Row.new(title: "yield, among 100", workload: "yield_among", bar: 1.2),
      Row.new(title: "sleep(0)", workload: "sleep_zero", bar: 2.0),
      Row.new(title: "queue hop", workload: "queue_hop", bar: 2.0),
      Row.new(title: "socket round trip, stock IO", workload: "socket_round_trip", bar: 1.2),
      Row.new(title: "Timeout.timeout, set and cancelled", workload: "timeout"),
      Row.new(title: "own timeout, set and cancelled", workload: "own_timeout", libraries: LOOPS),
      Row.new(title: "empty run, warm", workload: "empty_run", libraries: LOOPS),
      Row.new(title: "hooks: block + unblock, timer", workload: "hook_block", libraries: LOOPS),
      Row.new(title: "hooks: io_wait, io_read, io_write", workload: "hook_transfer", libraries: LOOPS),
      Row.new(title: "hooks: kernel_sleep(0)", workload: "hook_sleep", libraries: LOOPS),
      # A crowd of threads is so slow that a tenth of them must do.
      Row.new(title: "20,000 parked", workload: "parked", operations: 20_000, threads: 2_000, bar: 2.0),
      Row.new(title: "20,000 parked, stacks kept", workload: "parked", libraries: LOOPS, operations: 20_000, bar: 2.0, variables: STACKS_KEPT),
      Row.new(title: "100,000 parked", workload: "parked", libraries: LOOPS, operations: 100_000)
    ].freeze

    MAPS_PER_FIBER = 2 # its stack and the guard page below
    MAPS_BESIDE = 5_000 # of the process itself, with room
    SYSTEM_CALLS_OVER = 500 # operations
    INSTRUCTIONS_OVER = 1000 # operations

    # @param options [Options]
    def initialize(options)
      @options = options
    end

    # @return [RuntimeReport]
    def run
      Machine.raise_open_files
      cells = rows.flat_map { |row| contestants(row).map { |contestant| cell(row, contestant) } }
      traced = SystemCalls.available? ? rows.reject(&:operations).product([1]).map(&:first) : []
      counted = (@options.before && Instructions.available?) ? rows.reject(&:operations) + rows.select { |row| row.workload == "spawn_value" && row.variables.empty? } : []
      progress = Progress.new(cells.size * @options.rounds + traced.sum { |row| contestants(row).size } + counted.sum { |row| versions(row).size })
      results = Rounds.new(cells, rounds: @options.rounds, progress:).call
      calls = traced.flat_map { |row| count_calls(row, progress) }.to_h
      instructions = counted.flat_map { |row| count_instructions(row, progress) }.to_h
      progress.finish
      RuntimeReport.new(rows:, results:, calls:, instructions:, notes:, rounds: @options.rounds)
    end

    private

    def rows = @rows ||= ROWS.select { |row| @options.wants?(row.title) && !(row.operations == 100_000 && refusal) }

    def contestants(row) = [*Contestant.of(*row.libraries), *before].select { |contestant| @options.wants_contestant?(contestant.name) }

    def before = @options.before ? Contestant.before(@options.before) : []

    def cell(row, contestant)
      operations = (contestant.library == "threads") ? row.threads : row.operations
      Cell.new(row.title, contestant, workload: row.workload) do
        amount = if operations
          {operations:}
        else
          {seconds: @options.quick? ? 0.05 : 0.3}
        end
        ChildProcess.new(SCRIPT, contestant, row.workload, variables: row.variables, **amount).measure
      end
    end

    def count_calls(row, progress)
      contestants(row).map do |contestant|
        progress.step("system calls: #{row.title}, #{contestant}") do
          [[row.title, contestant.name], SystemCalls.new(SCRIPT, contestant, row.workload).per_operation(SYSTEM_CALLS_OVER)]
        rescue Failure
          [[row.title, contestant.name], nil]
        end
      end
    end

    # The one checkout and the other.
    def versions(row) = contestants(row).select { |contestant| contestant.library == "neverblock" }

    def count_instructions(row, progress)
      versions(row).map do |contestant|
        progress.step("instructions: #{row.title}, #{contestant}") do
          [[row.title, contestant.name], Instructions.new(SCRIPT, contestant, row.workload).per_operation(INSTRUCTIONS_OVER)]
        end
      end
    end

    # Why 100,000 parked fibers are left out, nil where they are not.
    def refusal
      wanted = 100_000 * MAPS_PER_FIBER + MAPS_BESIDE
      limit = Machine.max_map_count
      return if limit >= wanted
      "100,000 parked: left out, since vm.max_map_count is #{limit} and #{wanted} are needed (two for each fiber). " \
        "To have it measured: sudo sysctl vm.max_map_count=1048576"
    end

    def notes
      [refusal, ("System calls: not counted, since strace is not here or may not trace." unless SystemCalls.available?)].compact
    end
  end
end
