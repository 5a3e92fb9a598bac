# frozen_string_literal: true

# bin/bench mysql: MariaDB from one process by Active Record: ten, a hundred and a thousand fibers on 12 and 32 shared
# connections, by trilogy and mysql2, beside the stock adapters in threads and on a pool, at round trips of 0 and 1 ms.
#
#   Bench::Mysql.new(options).run      # => Bench::Mysql::Report
require_relative "../database/on_server"
require_relative "contestants"
require_relative "report"
require_relative "row"
require_relative "server"

module Bench
  class Mysql
    include Benchmark
    include Database::OnServer

    SECONDS = 0.5
    QUICK_SECONDS = 0.3
    WARM = 0.5 # of the seconds, before anything counts
    LEAST_WARM = 0.3
    SLEEPERS = 12 # connections of those that wait together

    # @return [Array<Array(Row, Contestant)>] the cells to measure: threads once, whatever the number of fibers
    def fields
      @once ||= super.map { |row, contestant| [row.for(contestant), contestant] }.uniq
    end

    private

    def database = Server

    def contestants(row) = row.sleeps? ? CONTESTANTS.select { |contestant| contestant.connections == SLEEPERS } : CONTESTANTS

    def group(row) = row.group

    def sample(server, row, contestant)
      options = {layer: "active_record", place: server.place(row.round_trip, adapter: Mysql.adapter(contestant)), own: contestant.own, connections: contestant.connections}
      options.update(row.sleeps? ? {text: "select sleep(1)", sleeps: SLEEPS} : {fibers: row.fibers, seconds: @seconds, warm: [@seconds * WARM, LEAST_WARM].max})
      server.watch { child("database/child.rb", contestant, row.work, groups: GROUPS.fetch(Mysql.driver(contestant)), **options).measure }
    end

    def notes(server)
      [versions(server, "trilogy", "mysql2", "activerecord"),
        "\"neverblock trilogy 12\" is `adapter: neverblock_trilogy` with `connections: 12`, \"neverblock mysql2\" `adapter: neverblock_mysql2`. \"pool\" is the stock adapter on a pool of so many " \
          "connections, in fibers on NeverBlock; \"threads\" the stock adapter in so many threads with a connection each, whatever the number of fibers in the row.",
        "A round trip of 0 ms is MariaDB's unix socket; 1 ms is TCP through a delay proxy (`test/support/delay_proxy.c`) on MariaDB's core.",
        "Every answer is checked, but not those of `select sleep(1)`. Connections are the most that `Max_used_connections` showed."]
    end
  end
end
