# frozen_string_literal: true

# bin/bench rails_sqlite: what `rails new` writes, with SQLite, Solid Cache, Solid Queue and Solid Cable, beside Puma with three
# threads (its default) and five. Pages, JSON, cached texts and writes at once; all servers run, and are asked in turns.
#
#   Bench::RailsSqlite.new(options).run      # => Bench::RailsSqlite::Report
require_relative "../rails/rails"

module Bench
  class RailsSqlite < Rails
    TURNS = 10
    SECONDS = 3.0
    QUICK_SECONDS = 0.5
    WARM = 4.0 # seconds of all requests before the first turn

    CONTESTANTS = [
      Contestant.new("neverblock", "neverblock", {"SHOP_CONNECTIONS" => "20"}, "#c0392b"),
      *[3, 5].map { |threads| Contestant.new("puma #{threads}", "puma", {"RAILS_MAX_THREADS" => threads.to_s, "SHOP_CONNECTIONS" => threads.to_s}, "#7f8c8d") }
    ].freeze

    ROWS = [
      Servers::Row.new(id: "app", title: "pages, JSON, cached texts, comments with a job and a broadcast, counters: 20 clients", path: "/posts", answer: %r{Post 199.*</html>}m, measure: :mixture),
      Servers::Row.new(id: "wait", title: "the same beside four clients whose transactions wait 20 ms", path: "/posts", answer: %r{Post 199.*</html>}m, measure: :waiting)
    ].freeze
  end
end

require_relative "app"
require_relative "mixture"
require_relative "report"

module Bench
  class RailsSqlite
    MEASUREMENTS = {
      mixture: ->(row, seconds) { Mixture.new(row, seconds:) },
      waiting: ->(row, seconds) { Mixture.new(row, seconds:, waiting: true) }
    }.freeze

    private

    def missing = Servers::Core.missing || self.class::App.missing

    def report(results, notes) = super(results, notes, rounds: @options.rounds * TURNS)

    # All rows are asked in turns.
    def turns?(_row) = true

    def take_turns(row, left, app, progress, round)
      measurement = MEASUREMENTS.fetch(row.measure).call(row, @seconds)
      progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: left.size) do
        Servers::Turns.new(left, turns: TURNS, ready: ->(server) { server.expect(row) && measurement.warm(server, WARM) }) { |result| Launch.new(result.cell.contestant, app) }
          .call { |_, server| measurement.call(server) }
      end
    end

    def notes(app)
      ["#{app.versions}.",
        "The production environment of `rails new` with log level info and YJIT, the same for all, with databases that they share; one process each, all on one core, the client on another.",
        "NeverBlock has `max_connections: 20`, Puma as many as threads. Jobs are put into Solid Queue, and are not run.",
        "A ratio is the median of those of all turns, beside it the interval in which it lies with a probability of 95 %."]
    end
  end
end
