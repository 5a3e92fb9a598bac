# frozen_string_literal: true

# bin/bench cost: what a statement costs where ten to a thousand fibers ask for one, beside the stock adapter's pool of as many
# connections: processor time and rate, in paired rounds of two processes that stay, at round trips of 0 and 0.5 ms.
#
#   Bench::Cost.new(options).run      # => Bench::Cost::Report
require_relative "../bench/cell"
require_relative "../bench/failure"
require_relative "../bench/machine"
require_relative "../bench/progress"
require_relative "../bench/rounds"
require_relative "../bench/system_calls"
require_relative "../database/contestant"
require_relative "../database/server"
require_relative "processes"
require_relative "report"
require_relative "row"

module Bench
  class Cost
    CONNECTIONS = 8
    SECONDS = 0.3
    QUICK_SECONDS = 0.1

    # @param options [Options]
    def initialize(options)
      @options = options
      @seconds = options.seconds || (options.quick? ? QUICK_SECONDS : SECONDS)
      @uncounted = []
    end

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      missing = Servers::Core.missing || Database::Server.missing
      raise Failure, "bin/bench cost cannot run here: #{missing}." if missing
      raise Failure, "bin/bench cost takes two rounds or more, for an interval; --rounds is #{@options.rounds}." if @options.rounds < 2
      raise Failure, "No row is left. Rows: #{ROWS.first.id}, … #{ROWS.last.id}." if rows.empty?
      Machine.raise_open_files
      results, notes = Database::Server.on_its_core do
        Database::Server.open(rows.map(&:round_trip).uniq) { |server| [measure(server), notes(server)] }
      end
      Report.new(rows:, results:, rounds: @options.rounds, seconds: @seconds, notes:)
    end

    # @return [Array<Row>] those that are asked for
    def rows = @rows ||= @options.choose(ROWS) { |row| !@options.quick? || row.quick? }

    # @return [Array<Database::Contestant>] ours, the stock pool, and ours of another checkout
    def contestants
      number = @options.connections || CONNECTIONS
      ours = Database::Contestant.ours(number)
      [ours, Database::Contestant.pool(number, "#e67e22"), *(ours.before(@options.before) if @options.before)]
    end

    private

    def measure(server)
      progress = Progress.new(rows.size * contestants.size * (@options.rounds + passes.size))
      results = rows.group_by(&:group).values.flat_map do |group|
        Processes.open(server, group.first, contestants, seconds: @seconds) { |processes| measure_group(group, processes, progress) }
      end
      progress.finish
      results
    end

    def measure_group(group, processes, progress)
      cells = group.product(contestants).map do |row, contestant|
        Cell.new(row.title, contestant, id: row.id, fibers: row.fibers) { processes.sample(contestant, row.fibers) }
      end
      Rounds.new(cells, rounds: @options.rounds, progress:).call.tap { |results| profile(results, processes, progress) }
    end

    # What a profile asks the processes for.
    def passes = @options.profile? ? [*(:system_calls if SystemCalls.available?), :calls] : []

    # Into the last sample of each. Where it fails, what was timed before stays.
    def profile(results, processes, progress)
      passes.product(results) do |pass, result|
        cell = result.cell
        progress.step("#{pass}: #{cell.row}, #{cell.contestant}") do
          result.samples.last.update(processes.public_send(pass, cell.contestant, cell.traits.fetch(:fibers))) if result.any?
        rescue Failure => error
          @uncounted << "#{pass.to_s.tr("_", " ")} of #{cell.row}, #{cell.contestant}: #{error.message}"
        end
      end
    end

    def notes(server)
      gems = LoadPath.versions.slice("pg", "activerecord", "sequel").map { |pair| pair.join(" ") }.join(", ")
      ["PostgreSQL #{server.version}, #{gems}.",
        "\"neverblock\" is `adapter: neverblock_postgresql`, `neverblock-postgres://` and `NeverBlock::Postgres`; \"pool\" is the stock adapter, or pg on a small fair pool, with as " \
          "many connections, in fibers on NeverBlock. Each fiber is started for the sample, and does the next thing when the last is done.",
        ("System calls: not counted, since strace is not here or may not trace." if @options.profile? && !SystemCalls.available?), *@uncounted].compact
    end
  end
end
