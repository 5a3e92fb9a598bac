# frozen_string_literal: true

# bin/bench rails: a Rails app on PostgreSQL in production, served by NeverBlock, Puma and Falcon, one process each: JSON,
# HTML with a fragment cache, queries that wait, actions that compute, and these beside each other; and all servers in turns.
#
#   Bench::Rails.new(options).run      # => Bench::Rails::Report
require_relative "../bench/benchmark"
require_relative "../bench/progress"
require_relative "../bench/result"
require_relative "../servers/servers"
require_relative "../servers/turns"
require_relative "app"
require_relative "launch"
require_relative "measurements/beside"
require_relative "measurements/mixed"
require_relative "measurements/burst"
require_relative "report"

module Bench
  class Rails
    include Benchmark

    POOL = "12" # connections, where there are more requests than threads
    CONTESTANTS = [
      Contestant.new("neverblock", "neverblock", {"SHOP_ADAPTER" => "neverblock_postgresql", "SHOP_CONNECTIONS" => POOL}, "#c0392b"),
      *[3, 5].map { |threads| Contestant.new("puma #{threads}", "puma", {"RAILS_MAX_THREADS" => threads.to_s, "SHOP_CONNECTIONS" => threads.to_s}, "#7f8c8d") },
      Contestant.new("falcon", "falcon", {"SHOP_CONNECTIONS" => POOL, "SHOP_ISOLATION" => "fiber"}, "#2471a3")
    ].freeze

    # Two leave requests behind at servers that are slow with them, so nothing follows those in the same process.
    ROWS = [
      Servers::Row.new(id: "hello", title: "hello, 32 connections"),
      Servers::Row.new(id: "json", title: "20 records as JSON, 32 connections", path: "/items.json", answer: /"name":"Item 19"/),
      Servers::Row.new(id: "html", title: "20 records as HTML, with a layout and cached fragments, 32 connections", path: "/items", answer: %r{Item 19.*</html>}m),
      Servers::Row.new(id: "cpu", title: "5 ms of CPU, 32 connections", path: "/cpu", answer: /\A\d+\z/),
      Servers::Row.new(id: "sleep", title: "a query that takes 50 ms, 32 connections", path: "/sleep"),
      Servers::Row.new(id: "mixed", title: "140 requests/s: 80 of JSON, 30 that wait 50 ms, 30 that compute 5 ms", measure: :mixed),
      Servers::Row.new(id: "together", title: "ten requests at once, each with a query of a second", measure: :together, path: "/second", connections: 10),
      Servers::Row.new(id: "beside", title: "30 % of the peak, beside 50 queries of 50 ms a second, and beside ten clients with queries of a second", measure: :beside),
      Servers::Row.new(id: "turns", title: "hello, 32 connections, all servers at once and asked in turns", measure: :turns)
    ].freeze

    # Without system calls: strace would slow down later measurements.
    MEASUREMENTS = {
      saturated: ->(row, seconds) { Servers::Saturated.new(row, seconds:, count_calls: false) },
      mixed: ->(row, seconds) { Mixed.new(row, seconds:) },
      beside: ->(row, seconds) { Beside.new(row, seconds:) },
      together: ->(row, seconds) { Burst.new(row, seconds:) }
    }.freeze
    SECONDS = 1.0
    QUICK_SECONDS = 0.5
    TURNS = 10
    TURNS_WARM = 3 # seconds of requests before the turns, until YJIT has compiled
    WARM = %w[/hello /items.json /items /cpu].freeze # compiled before anything is measured

    private

    def missing = Servers::Core.missing || Servers::Wrk.missing || App.missing

    # The client, and PostgreSQL with it; servers are tied to the other core.
    def within(&) = Servers::Core::CLIENT.hold { self.class::App.open(&) }

    # All rows in one process, since a Rails app takes seconds to boot; each round begins with another server.
    def measure(app)
      results = fields.map { |row, contestant| Result.new(cell(row, contestant)) }
      together, apart = results.partition { |result| turns?(row_of(result)) }
      progress = Progress.new(results.size * @options.rounds)
      @options.rounds.times do |round|
        served = apart.group_by { |result| result.cell.contestant }.to_a
        served.rotate(round).each { |contestant, left| sit(contestant, left, app, progress, round) }
        together.group_by { |result| row_of(result) }.each { |row, left| take_turns(row, left, app, progress, round) }
      end
      progress.finish
      results
    end

    def turns?(row) = row.measure == :turns

    def row_of(result) = rows.find { |row| row.id == result.cell.id }

    def take_turns(row, left, app, progress, round)
      app.backends.wait_until_none
      progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: left.size) do
        Servers::Turns.new(left, turns: TURNS, ready: ->(server) { get_ready(server, row) }) { |result| Launch.new(result.cell.contestant, app) }
          .call { |_, server| server.watch(objects: false) { Servers::Wrk.run(server.port, row, @seconds) } }
      end
    end

    def get_ready(server, row)
      warm_up(server)
      server.expect(row)
      Servers::Wrk.warm_up(server.port, row, TURNS_WARM)
    end

    def sit(contestant, left, app, progress, round)
      left = left.reject(&:failure)
      app.backends.wait_until_none
      Servers::Running.open(Launch.new(contestant, app)) do |server|
        warm_up(server)
        left.each do |result|
          progress.step("round #{round + 1}/#{@options.rounds}: #{contestant}, #{result.cell.row}") { sample(result, server, app) }
        end
      end
    rescue Failure => failure
      left.each { |result| result.failure ||= failure.message }
    end

    def warm_up(server)
      WARM.each { |path| Servers::Wrk.warm_up(server.port, ROWS.first.with(path:), Servers.warm_up(@seconds)) }
    end

    # A failed row is not tried again: it has the reason.
    def sample(result, server, app)
      row = row_of(result)
      figures = app.backends.watch { self.class::MEASUREMENTS.fetch(row.measure).call(row, @seconds).call(server) }
      result.samples << {**figures, "connections" => app.backends.count}
    rescue Failure => failure
      result.failure = failure.message
    end

    def notes(app)
      ["#{app.versions}, wrk #{Servers::Wrk.version}.",
        "The production environment of `rails new` with log level info, the cache in memory and YJIT, the same for all; gems of the others are not loaded.",
        "NeverBlock has `adapter: neverblock_postgresql` with #{POOL} connections, Falcon `adapter: postgresql` with #{POOL} and :fiber as isolation level, " \
          "Puma `adapter: postgresql` with as many as threads.",
        "PSS is the proportional set size of the server's processes, and \"connections\" are theirs to PostgreSQL, when the row was done.",
        "\"Disturbed\": other processes took over #{(RowsReport::DISTURBED * 100).round} % of the server's core."]
    end
  end
end
