# frozen_string_literal: true

# bin/bench database: PostgreSQL from one process, by pg, Active Record and Sequel: ten, a hundred and a thousand fibers on
# eight shared connections, beside pools of connections in fibers and in threads, at round trips of 0, 0.5 and 1 ms.
#
#   Bench::Database.new(options).run      # => Bench::Database::Report
require_relative "../bench/cell"
require_relative "../bench/child_process"
require_relative "../bench/failure"
require_relative "../bench/machine"
require_relative "../bench/rounds"
require_relative "contestant"
require_relative "report"
require_relative "row"
require_relative "server"

module Bench
  class Database
    SCRIPT = "database/child.rb"
    SECONDS = 0.5
    QUICK_SECONDS = 0.3
    WARM = 0.5 # of the seconds, before anything counts
    LEAST_WARM = 0.3
    LONGER = 4 # times as long, where a p99 is what counts
    ROUND_TRIPS = [0, 0.0005, 0.001].freeze
    FIBERS = [10, 100, 1000].freeze
    CLOSED = %w[select_1 find transactions slow].freeze
    BURST = 10_000
    LONG = [10, 50, 100].freeze
    SHORT = [2, 5, 10, 20, 50, 100].freeze

    ROWS = [
      *LAYERS.keys.product(CLOSED, ROUND_TRIPS, FIBERS).map { |layer, work, round_trip, fibers| Row.new(layer:, work:, round_trip:, fibers:) },
      *%w[raw active_record].product(MIXED).map { |layer, work| Row.new(layer:, work:, round_trip: 0.001) },
      *LAYERS.keys.map { |layer| Row.new(layer:, work: "crowd", round_trip: 0.001, fibers: BURST) },
      *LONG.product(SHORT).map { |long, short| Row.new(layer: "raw", work: "long_short", long:, short:) }
    ].freeze

    # Those of --quick: the shape of each table.
    def self.quick?(row)
      return row.long == LONG.first && [SHORT.first, SHORT.last].include?(row.short) if row.kind == :long_short
      %i[mixed burst].include?(row.kind) || (row.work == "find" && [0, 0.001].include?(row.round_trip) && row.fibers != 10)
    end

    # @param options [Options]
    def initialize(options)
      @options = options
      @seconds = options.seconds || (options.quick? ? QUICK_SECONDS : SECONDS)
    end

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      missing = Servers::Core.missing || Server.missing
      raise Failure, "bin/bench database cannot run here: #{missing}." if missing
      raise Failure, "No row with a contestant is left. Contestants: #{Contestant.all.join(", ")}; rows: #{ROWS.first.id}, … #{ROWS.last.id}." if fields.empty?
      Machine.raise_open_files
      results, notes = Server.on_its_core do
        Server.open(rows.map(&:round_trip).uniq) { |server| [measure(server), notes(server)] }
      end
      Report.new(rows:, results:, rounds: @options.rounds, seconds: @seconds, notes:)
    end

    # @return [Array<Row>] those that are asked for
    def rows = @options.choose(ROWS) { |row| !@options.quick? || Database.quick?(row) }

    # @return [Array<Array(Row, Contestant)>] what is measured: threads once, however many fibers the others have
    def fields
      @fields ||= rows.flat_map { |row|
        contestants(row).select { |contestant| @options.wants_contestant?(contestant.name) }
          .map { |contestant| [(row.kind == :closed && !contestant.fibers?) ? row.with(fibers: nil) : row, contestant] }
      }.uniq
    end

    private

    def contestants(row)
      Contestant.for(row.kind).flat_map { |contestant| (contestant.own && @options.before) ? [contestant, contestant.before(@options.before)] : [contestant] }
    end

    def measure(server)
      cells = fields.map do |row, contestant|
        Cell.new(row.group, contestant, id: row.id) { sample(server, row, contestant) }
      end
      Rounds.measure(cells, rounds: @options.rounds)
    end

    def sample(server, row, contestant)
      options = {layer: row.layer, place: server.place(row.round_trip), own: contestant.own, connections: contestant.connections,
                 fibers: row.fibers, seconds: (row.kind == :mixed) ? @seconds * LONGER : @seconds, warm: [@seconds * WARM, LEAST_WARM].max, long: row.long, short: row.short}
      server.tidy if row.work == "transactions"
      server.watch(row.round_trip) do
        ChildProcess.new(SCRIPT, contestant, row.work, wrapper: Servers::Core::SERVER.tie, groups: %i[default database], **options).measure
      end
    end

    def notes(server)
      gems = LoadPath.versions.slice("pg", "activerecord", "sequel", "async").map { |pair| pair.join(" ") }.join(", ")
      ["PostgreSQL #{server.version}, #{gems}.",
        "\"neverblock 8\" is `NeverBlock::Postgres`, `adapter: neverblock_postgresql` and `neverblock-postgres://` with `connections: 8`. \"pool\" is the stock driver or adapter " \
          "on a pool of so many connections, in fibers on NeverBlock; \"async\" the same on async; \"threads\" so many threads with a connection each, whatever the line says of fibers.",
        "A round trip of 0 ms is PostgreSQL's unix socket; the others are TCP through a delay proxy (`test/support/delay_proxy.c`) on PostgreSQL's core.",
        "Every answer is compared with what was asked for. The statement of 50 ms reads a view, so that nothing but its time tells it from others; it is new to the process.",
        "Backends are the most that `pg_stat_activity` showed at once."]
    end
  end
end
