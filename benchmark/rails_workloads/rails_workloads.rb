# frozen_string_literal: true

# bin/bench rails_workloads: the five workloads of 2008 in a Rails app, at equal numbers of database connections: a thousand requests
# of which each runs `select 1`, or one in 200, 100, 50, 20, 10 a sleep of a second; 200 or 1,000 at once. And how throughput goes with
# concurrency, and what memory it takes.
#
#   Bench::RailsWorkloads.new(options).run      # => Bench::RailsWorkloads::Report
require_relative "../rails/rails"

module Bench
  class RailsWorkloads < Rails
    REQUESTS = 1_000
    PATIENCE = 60 # seconds that all of them may take
    WARM_CONNECTIONS = 32
    CONCURRENCY = [200, 1_000].freeze
  end
end

require_relative "contestant"
require_relative "limit"
require_relative "report"
require_relative "row"
require_relative "workload"

module Bench
  class RailsWorkloads
    CONTESTANTS = [
      Contestant.ours(12, "#c0392b"), Contestant.puma(12, 1, "#34495e"), Contestant.puma(4, 3, "#7f8c8d"),
      Contestant.ours(20, "#e67e22"), Contestant.puma(4, 5, "#bdc3c7")
    ].freeze

    # The workloads, then those of the graph that are not among them.
    CURVE = 20
    ROWS = [
      *[200, 100, 50, 20, 10].product(CONCURRENCY).map { |every, concurrency| Row.new(every:, concurrency:) },
      *[10, 20, 50, 100, 500].map { |concurrency| Row.new(every: CURVE, concurrency:) }
    ].freeze

    MEASUREMENTS = {workload: ->(row, _seconds) { Workload.new(row) }}.freeze

    private

    def missing = Servers::Core.missing || self.class::App.missing

    # Every process of it.
    def warm_up(server)
      Servers::Load.run(server.port, [Servers::Load.closed(WARM_CONNECTIONS, Workload::ONE.raw)], seconds: Servers.warm_up(@seconds) * 2)
    end

    def notes(app)
      ["#{app.versions}.",
        "The production environment of `rails new` with log level info and YJIT, the same for all. All processes of a server share one core; the client and PostgreSQL have the other.",
        "\"neverblock 1x12\" is one process with `adapter: neverblock_postgresql` and `connections: 12`, \"puma 12x1\" twelve processes of one thread and one connection, preloaded, " \
          "with `adapter: postgresql`.",
        "With NeverBlock requests wait for a connection inside of the app, with Puma in front of it: NeverBlock has `checkout_timeout: #{PATIENCE}` instead of 5, " \
          "and `queue max_wait: #{PATIENCE}` instead of 2, after which a busy server turns requests away.",
        "Each request has a connection to the server of its own. All are answered once before, so that caches are warm.",
        "The limit is arithmetic: a connection sleeps for one request at a time, and a request gets to it when the processor time of those before it is spent.",
        "PSS is the proportional set size of all the server's processes when the row was done, backends are the most that `pg_stat_activity` showed at once."]
    end
  end
end
