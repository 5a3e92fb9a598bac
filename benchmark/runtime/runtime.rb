# frozen_string_literal: true

# bin/bench runtime: what each of the runtime's moves costs, on every engine,
# beside async and threads.
#
#   Bench::Runtime.new(options).run      # => Bench::Runtime::Report
require_relative "../bench/benchmark"
require_relative "../bench/instructions"
require_relative "../bench/progress"
require_relative "../bench/system_calls"
require_relative "report"

module Bench
  class Runtime
    include Benchmark

    SCRIPT = "runtime/child.rb"
    ALL = %w[neverblock async threads].freeze
    LOOPS = %w[neverblock async].freeze
    SECONDS = 0.3
    QUICK_SECONDS = 0.05

    # title; workload; libraries; bar: how many times async's speed is asked for;
    # operations: exactly so many, else as many as take the time; threads: so many there;
    # variables: of the environment that all its libraries are measured in.
    Row = Data.define(:title, :workload, :libraries, :bar, :operations, :threads, :variables) do
      def initialize(title:, workload:, libraries: ALL, bar: nil, operations: nil, threads: operations, variables: {}) = super

      def id = title
    end

    # By default, Ruby returns the memory of a finished fiber's stack to the system.
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

    SYSTEM_CALLS_OVER = 500 # operations
    INSTRUCTIONS_OVER = 1000 # operations

    # @return [Array<Row>]
    def rows = super.reject { |row| row.operations == 100_000 && refusal }

    private

    def contestants(row) = [*Contestant.of(*row.libraries), *(Contestant.before(@options.before) if @options.before)]

    def measure(place)
      progress = Progress.new(cells(place).size * @options.rounds + fields.count { |row, _| traced?(row) } + fields.count { |field| counted?(*field) })
      results = Rounds.new(cells(place), rounds: @options.rounds, progress:).call
      results.zip(fields).each do |result, (row, contestant)|
        count(result, SystemCalls, "system_calls", row, SYSTEM_CALLS_OVER, progress) if traced?(row)
        count(result, Instructions, "instructions", row, INSTRUCTIONS_OVER, progress) if counted?(row, contestant)
      end
      results.tap { progress.finish }
    end

    def sample(_place, row, contestant)
      operations = (contestant.library == "threads") ? row.threads : row.operations
      amount = operations ? {operations:} : {seconds: @seconds}
      ChildProcess.new(SCRIPT, contestant, row.workload, variables: row.variables, **amount).measure
    end

    def traced?(row) = SystemCalls.available? && !row.operations

    # Of this checkout and the other.
    def counted?(row, contestant)
      @options.before && contestant.library == "neverblock" && Instructions.available? && (!row.operations || (row.workload == "spawn_value" && row.variables.empty?))
    end

    # Into the last sample, in a pass of its own. Without it the field stays empty.
    def count(result, counter, figure, row, operations, progress)
      progress.step("#{figure.tr("_", " ")}: #{row.title}, #{result.cell.contestant}") do
        result.samples.last&.store(figure, counter.new(SCRIPT, result.cell.contestant, row.workload).per_operation(operations))
      rescue Failure
        nil
      end
    end

    # Why 100,000 parked fibers are left out, nil where they are not.
    def refusal = Machine.too_many_fibers(100_000)

    def notes(_place)
      [refusal&.then { |reason| "100,000 parked: #{reason}" }, ("System calls: not counted, since strace is not here or may not trace." unless SystemCalls.available?)].compact
    end
  end
end
