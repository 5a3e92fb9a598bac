# frozen_string_literal: true

# bin/bench active_record: the founding project's own measurements of Active Record. Five workloads, a thousand times each; and
# 2 to 32 connections, with 5,000 statements that take no time and then twenty that take a second.
#
#   Bench::ActiveRecord.new(options).run      # => Bench::ActiveRecord::Report
require_relative "../database/on_postgres"
require_relative "report"
require_relative "row"

module Bench
  class ActiveRecord
    include Benchmark
    include Database::OnPostgres

    FIBERS = 100
    TIMES = 1000
    ASKED = 5000 # times `select 1`
    SLEEPS = 20 # of a second

    private

    def contestants(row) = row.contestants

    def group(row) = row.id

    def sample(server, row, contestant)
      server.empty
      options = {place: server.place(row.round_trip), own: contestant.own, connections: contestant.connections, fibers: FIBERS,
                 times: row.connections ? ASKED : TIMES, sleeps: SLEEPS}
      server.watch(row.round_trip) { child("active_record/child.rb", contestant, row.work, **options).measure }
    end

    def notes(server)
      [versions(server, "pg", "activerecord"),
        "#{FIBERS} fibers, or as many threads as connections; \"blocking\" is one after another. The table begins with a hundred entries; how many there are afterwards is checked.",
        "\"neverblock\" is `adapter: neverblock_postgresql`, \"pool\" `adapter: postgresql` on a pool of as many connections, in fibers on NeverBlock."]
    end
  end
end
