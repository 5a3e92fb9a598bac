# frozen_string_literal: true

# bin/bench cost: what a statement costs where ten to a thousand fibers ask for one, beside the stock adapter's pool of as many
# connections: processor time and rate, in paired rounds of two processes that stay, at round trips of 0 and 0.5 ms.
#
#   Bench::Cost.new(options).run      # => Bench::Cost::Report
require_relative "../bench/progress"
require_relative "../bench/system_calls"
require_relative "../database/on_postgres"
require_relative "processes"
require_relative "report"
require_relative "row"

module Bench
  class Cost
    include Benchmark
    include Database::OnPostgres

    CONNECTIONS = 8
    SECONDS = 0.3
    QUICK_SECONDS = 0.1

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      raise Failure, "bin/bench cost takes two rounds or more, for an interval; --rounds is #{@options.rounds}." if @options.rounds < 2
      super
    end

    # @return [Array<Database::Contestant>] ours, the stock pool, and ours of another checkout
    def contestants(_row = nil)
      number = @options.connections || CONNECTIONS
      ours = Database::Contestant.ours(number)
      [ours, Database::Contestant.pool(number, "#e67e22"), *(ours.before(@options.before) if @options.before)]
    end

    private

    # Those that are asked for.
    def chosen = fields.map(&:last).uniq

    def measure(server)
      progress = Progress.new(fields.size * (@options.rounds + passes.size))
      results = rows.group_by(&:group).values.flat_map do |group|
        Processes.open(server, group.first, chosen, seconds: @seconds) { |processes| measure_group(group, processes, progress) }
      end
      progress.finish
      results
    end

    def measure_group(group, processes, progress)
      cells = group.product(chosen).map { |row, contestant| cell(row, contestant, fibers: row.fibers) { processes.sample(contestant, row.fibers) } }
      Rounds.new(cells, rounds: @options.rounds, progress:).call.tap { |results| profile(results, processes, progress) }
    end

    def uncounted = @uncounted ||= []

    # What a profile asks the processes for.
    def passes = @options.profile? ? [*(:system_calls if SystemCalls.available?), :calls] : []

    # Added to the last sample of each. If the profile fails, the timings are kept.
    def profile(results, processes, progress)
      passes.product(results) do |pass, result|
        cell = result.cell
        progress.step("#{pass}: #{cell.row}, #{cell.contestant}") do
          result.samples.last.update(processes.public_send(pass, cell.contestant, cell.traits.fetch(:fibers))) if result.any?
        rescue Failure => error
          uncounted << "#{pass.to_s.tr("_", " ")} of #{cell.row}, #{cell.contestant}: #{error.message}"
        end
      end
    end

    def notes(server)
      [versions(server, "pg", "activerecord", "sequel"),
        "\"neverblock\" is `adapter: neverblock_postgresql`, `neverblock-postgres://` and `NeverBlock::Postgres`; \"pool\" is the stock adapter, or pg on a small fair pool, with as " \
          "many connections, in fibers on NeverBlock. Each fiber is started for the sample, and does the next thing when the last is done.",
        ("System calls: not counted, since strace is not here or may not trace." if @options.profile? && !SystemCalls.available?), *uncounted].compact
    end
  end
end
