# frozen_string_literal: true

# bin/bench http_ratios: the founding project's measurement of HTTP, Sequel and `to_json`. One app with two URLs, one of which blocks
# while the database answers and one of which waits in fibers; a long query for each 5 to 100 short ones, 10 to 1,000 requests at once.
#
#   Bench::HttpRatios.new(options).run      # => Bench::HttpRatios::Report
require_relative "../database/on_postgres"
require_relative "../servers/servers"
require_relative "launch"
require_relative "report"
require_relative "row"

module Bench
  class HttpRatios
    include Benchmark
    include Database::OnPostgres

    SECONDS = 1.0
    QUICK_SECONDS = 0.5
    SHORT = [5, 10, 20, 50, 100].freeze
    CONCURRENCY = [10, 100, 1_000].freeze
    ROWS = SHORT.product(CONCURRENCY).map { |short, concurrency| Row.new(short:, concurrency:) }.freeze

    # Named as their URLs.
    CONTESTANTS = [Contestant.new("fibers", "neverblock", {}, "#c0392b"), Contestant.new("blocking", "neverblock", {}, "#34495e")].freeze

    private

    def group(row) = row.id

    # In a fresh process: the blocking one still has requests of earlier clients.
    def sample(server, row, contestant)
      load = Servers::Load.closed(row.concurrency, row.raw(contestant))
      server.watch(row.round_trip) do
        Servers::Running.open(Launch.new(contestant, server.place(row.round_trip))) do |running|
          running.watch(objects: false) do
            figures = Servers::Load.run(running.port, [load], seconds: @seconds, warm: Servers.warm_up(@seconds))
            combine(figures, figures["loads"].first)
          end
        end
      end
    end

    def combine(figures, load)
      raise Failure, "#{load["errors"]} of #{load["answers"] + load["errors"]} answers were wrong" if load["errors"] > 0
      raise Failure, "nothing was answered within #{figures["seconds"].round(1)} s" unless load["answers"] > 0
      {"operations" => load["answers"], "wall" => figures["seconds"], "rate" => load["answers"] / figures["seconds"], **load.slice("p50", "p99")}
    end

    def notes(server)
      [versions(server, "pg", "sequel"),
        "Both URLs are of one app on NeverBlock's server. `/fibers` has `neverblock-postgres://` with 12 connections. `/blocking` has Sequel's own adapter with one, in " \
          "`Fiber.blocking`: every wait blocks the process.",
        "A short one reads ten rows by their keys, a long one takes the database 50 ms; both are answered as JSON. Every answer is checked.",
        "Each is measured in a fresh process, with connections to it that are kept. Backends are the most that `pg_stat_activity` showed at once."]
    end
  end
end
