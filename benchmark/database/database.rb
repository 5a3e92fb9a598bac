# frozen_string_literal: true

# bin/bench database: PostgreSQL from one process, by pg, Active Record and Sequel: ten, a hundred and a thousand fibers on
# eight shared connections, beside pools of connections in fibers and in threads, at round trips of 0, 0.5 and 1 ms.
#
#   Bench::Database.new(options).run      # => Bench::Database::Report
require_relative "contestant"
require_relative "on_postgres"
require_relative "report"
require_relative "row"

module Bench
  class Database
    include Benchmark
    include OnPostgres

    SECONDS = 0.5
    QUICK_SECONDS = 0.3
    WARM = 0.5 # of the seconds, before anything counts
    LEAST_WARM = 0.3
    LONGER = 4 # times as long, for a p99
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

    # @return [Array<Array(Row, Contestant)>] the cells to measure: threads once, whatever the number of fibers
    def fields
      @once ||= super.map { |row, contestant| [(row.kind == :closed && !contestant.fibers?) ? row.with(fibers: nil) : row, contestant] }.uniq
    end

    private

    # The shape of each table.
    def quick?(row)
      return row.long == LONG.first && [SHORT.first, SHORT.last].include?(row.short) if row.kind == :long_short
      %i[mixed burst].include?(row.kind) || (row.work == "find" && [0, 0.001].include?(row.round_trip) && row.fibers != 10)
    end

    def contestants(row)
      Contestant.for(row.kind).flat_map { |contestant| (contestant.own && @options.before) ? [contestant, contestant.before(@options.before)] : [contestant] }
    end

    def group(row) = row.group

    def sample(server, row, contestant)
      options = {layer: row.layer, place: server.place(row.round_trip), own: contestant.own, connections: contestant.connections,
                 fibers: row.fibers, seconds: (row.kind == :mixed) ? @seconds * LONGER : @seconds, warm: [@seconds * WARM, LEAST_WARM].max, long: row.long, short: row.short}
      server.tidy if row.work == "transactions"
      server.watch(row.round_trip) { child("database/child.rb", contestant, row.work, **options).measure }
    end

    def notes(server)
      [versions(server, "pg", "activerecord", "sequel", "async"),
        "\"neverblock 8\" is `NeverBlock::Postgres`, `adapter: neverblock_postgresql` and `neverblock-postgres://` with `connections: 8`. \"pool\" is the stock driver or adapter " \
          "on a pool of so many connections, in fibers on NeverBlock; \"async\" the same on async; \"threads\" so many threads with a connection each, whatever the number of fibers in the row.",
        "A round trip of 0 ms is PostgreSQL's unix socket; the others are TCP through a delay proxy (`test/support/delay_proxy.c`) on PostgreSQL's core.",
        "Every answer is checked. The statement of 50 ms reads a view, so that only its duration distinguishes it from others; it is new to the process.",
        "Backends are the most that `pg_stat_activity` showed at once."]
    end
  end
end
