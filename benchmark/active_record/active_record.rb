# frozen_string_literal: true

# bin/bench active_record: the founding project's own measurements of Active Record. Five workloads, a thousand times each; and
# 2 to 32 connections, with 5,000 statements that take no time and then twenty that take a second.
#
#   Bench::ActiveRecord.new(options).run      # => Bench::ActiveRecord::Report
require_relative "../bench/cell"
require_relative "../bench/child_process"
require_relative "../bench/failure"
require_relative "../bench/machine"
require_relative "../bench/rounds"
require_relative "../database/contestant"
require_relative "../database/server"
require_relative "report"
require_relative "row"

module Bench
  class ActiveRecord
    SCRIPT = "active_record/child.rb"
    FIBERS = 100
    TIMES = 1000
    ASKED = 5000 # times `select 1`
    SLEEPS = 20 # of a second

    # @param options [Options]
    def initialize(options)
      @options = options
    end

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      missing = Servers::Core.missing || Database::Server.missing
      raise Failure, "bin/bench active_record cannot run here: #{missing}." if missing
      raise Failure, "No row with a contestant is left. Rows: #{ROWS.map(&:id).join(", ")}." if fields.empty?
      results, notes = Database::Server.on_its_core do
        Database::Server.open(rows.map(&:round_trip).uniq) { |server| [measure(server), notes(server)] }
      end
      Report.new(rows:, results:, rounds: @options.rounds, notes:)
    end

    # @return [Array<Row>] those that are asked for
    def rows = @options.choose(ROWS) { |row| !@options.quick? || row.quick? }

    # @return [Array<Array(Row, Database::Contestant)>] what is measured
    def fields
      rows.flat_map { |row| row.contestants.select { |contestant| @options.wants_contestant?(contestant.name) }.map { |contestant| [row, contestant] } }
    end

    private

    def measure(server)
      cells = fields.map { |row, contestant| Cell.new(row.id, contestant, id: row.id) { sample(server, row, contestant) } }
      Rounds.measure(cells, rounds: @options.rounds)
    end

    def sample(server, row, contestant)
      server.empty
      options = {place: server.place(row.round_trip), own: contestant.own, connections: contestant.connections, fibers: FIBERS,
                 times: row.connections ? ASKED : TIMES, sleeps: SLEEPS}
      server.watch(row.round_trip) do
        ChildProcess.new(SCRIPT, contestant, row.work, wrapper: Servers::Core::SERVER.tie, groups: %i[default database], **options).measure
      end
    end

    def notes(server)
      ["PostgreSQL #{server.version}, #{LoadPath.versions.slice("pg", "activerecord").map { |pair| pair.join(" ") }.join(", ")}.",
        "#{FIBERS} fibers, or as many threads as connections; \"blocking\" is one after another. The table begins with a hundred entries; how many there are afterwards is checked.",
        "\"neverblock\" is `adapter: neverblock_postgresql`, \"pool\" `adapter: postgresql` on a pool of as many connections, in fibers on NeverBlock."]
    end
  end
end
