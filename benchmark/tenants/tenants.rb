# frozen_string_literal: true

# bin/bench tenants: what a request pays for a setting of its tenant, by the way in which it is set.
#
#   Bench::Tenants.new(options).run      # => Bench::Report
require_relative "../database/on_postgres"

module Bench
  class Tenants
    include Benchmark
    include Database::OnPostgres

    CONNECTIONS = 4

    Row = Data.define(:id, :title) do
      # @return [Integer] to the database
      def round_trip = 0
    end

    ROWS = {
      "nothing" => "nothing",
      "set" => "`SET app.tenant`",
      "set_reset" => "`SET app.tenant`, `RESET app.tenant`",
      "set_config" => "`set_config('app.tenant', …, false)`",
      "set_local" => "`SET LOCAL` in a transaction",
      "with_settings" => "`with_settings`",
      "work_mem" => "`SET work_mem`"
    }.map { |id, title| Row.new(id, title) }.freeze

    # Wall time is of one request after the other, the upkeep of its connection beside it; the rest of ten at once.
    TABLES = {"wall" => Figures.time_each("wall"), "process" => Figures.time_each("cpu"), "PostgreSQL" => Figures.time_each("server_cpu")}.freeze
    RATIOS = {"Processor time of the process" => "cpu"}.freeze

    private

    def contestants(_row) = Database::Contestant.ours(CONNECTIONS).then { |ours| [ours, *(ours.before(@options.before) if @options.before)] }

    def sample(server, row, contestant)
      server.watch(row.round_trip) do
        child("tenants/child.rb", contestant, row.id, place: server.place(row.round_trip), connections: CONNECTIONS, postmaster: server.process).measure
      end
    end

    def notes(server) = [versions(server, "pg", "activerecord")]
  end
end
