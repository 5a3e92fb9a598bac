# frozen_string_literal: true

# bin/bench scaling: what an operation costs beside 10, 100, 1,000 and 10,000 of something that it has nothing to do with; and
# the growth, from which a cost shows that depends on it.
#
#   Bench::Scaling.new(options).run      # => Bench::Scaling::Report
require_relative "../database/on_postgres"
require_relative "report"

module Bench
  class Scaling
    include Benchmark
    include Database::OnPostgres

    Thing = Data.define(:name, :title, :counts) do
      # @return [String] what is measured beside them
      def id = name
    end

    COUNTS = [10, 100, 1_000, 10_000].freeze

    THINGS = {
      "tasks" => "a task, beside parked tasks",
      "leases" => "a read, beside transactions that wait for a connection",
      "catalogue" => "a definition and the read after it, beside tables with triggers",
      "text" => "a statement with a literal of so many kB",
      "rows" => "an INSERT of so many rows",
      "threads" => "a task, beside threads",
      "pools" => "a new pool and its first use, beside pools",
      "loops" => "a task, beside loops in other threads"
    }.map { |name, title| Thing.new(name, title, (name == "loops") ? COUNTS.take(3) : COUNTS) }.freeze

    Row = Data.define(:thing, :count) do
      def id = "#{thing.name}_#{count}"

      def title = "#{thing.title}: #{count}"

      # A catalogue of thousands of tables takes a while to make, and so many threads to begin.
      def quick? = count <= 100

      # @return [Integer] to the database
      def round_trip = 0
    end

    ROWS = THINGS.flat_map { |thing| thing.counts.map { |count| Row.new(thing, count) } }.freeze
    CONTESTANTS = [Contestant.named("neverblock epoll")].freeze
    LIMIT = 300 # seconds for one measurement

    private

    def contestants(_row) = CONTESTANTS

    def sample(server, row, contestant)
      server.watch(row.round_trip) do
        child("scaling/child.rb", contestant, row.thing.name, place: server.place(row.round_trip), count: row.count, limit: LIMIT).measure
      end
    end

    def notes(server) = [versions(server, "pg")]
  end
end
