# frozen_string_literal: true

# bin/bench large_answers: what pings wait for while 200 MB come from PostgreSQL beside them; a gigabyte of memory.
#
#   Bench::LargeAnswers.new(options).run      # => Bench::Report
require_relative "../database/on_postgres"

module Bench
  class LargeAnswers
    include Benchmark
    include Database::OnPostgres

    CONNECTIONS = 4
    CONTESTANTS = [Database::Contestant.ours(CONNECTIONS)].freeze

    # sql: of the large statement; many: how many of them at once; small: how many of their shape come before, and are small,
    # so that it is not expected to be large.
    Row = Data.define(:id, :title, :sql, :many, :small, :connections) do
      def initialize(id:, title:, sql:, many: 1, small: 0, connections: CONNECTIONS) = super

      # @return [Integer] to the database
      def round_trip = 0
    end

    MANY_ROWS = "select repeat('x', 100) from generate_series(1, 2000000)"
    ROWS = [
      Row.new(id: "nothing", title: "nothing, for half a second", sql: "select pg_sleep(0.5)"),
      Row.new(id: "rows_100B", title: "2,000,000 rows of 100 B", sql: MANY_ROWS),
      Row.new(id: "rows_1kB", title: "200,000 rows of 1 kB", sql: "select repeat('x', 1000) from generate_series(1, 200000)"),
      Row.new(id: "rows_1MB", title: "200 rows of 1 MB", sql: "select repeat('x', 1000000) from generate_series(1, 200)"),
      Row.new(id: "rows_20MB", title: "10 rows of 20 MB", sql: "select repeat('x', 20000000) from generate_series(1, 10)"),
      Row.new(id: "row_200MB", title: "1 row of 200 MB", sql: "select repeat('x', 200000000)"),
      Row.new(id: "unforeseen", title: "2,000,000 rows of 100 B, unforeseen, on both connections", sql: MANY_ROWS, many: 2, small: 20, connections: 2)
    ].freeze

    TABLES = {
      "it took" => Figures.time("wall"), "ping p50" => Figures.time("p50"), "p99" => Figures.time("p99"), "longest" => Figures.time("longest"),
      "longest call of libpq's" => Figures.time("longest_call"), "`clear`" => Figures.time("clear")
    }.freeze

    private

    def sample(server, row, contestant)
      child("large_answers/child.rb", contestant, row.id, place: server.place(row.round_trip), **row.to_h.slice(:sql, :many, :small, :connections)).measure
    end

    def notes(server) = [versions(server, "pg"), "There are #{CONNECTIONS} connections, and two where it says so."]
  end
end
