# frozen_string_literal: true

# bin/bench stores: documents in memcached, Redis, PostgreSQL (jsonb) and MariaDB (json): created, queried and deleted by the
# hundred thousand, and read and written one by one; blocking, in 32 threads, on async and on NeverBlock.
#
#   Bench::Stores.new(options).run      # => Bench::Stores::Report
require_relative "../bench/benchmark"
require_relative "../database/contestant"
require_relative "../servers/core"
require_relative "report"
require_relative "row"
require_relative "servers"

module Bench
  class Stores
    include Benchmark

    CONNECTIONS = 32
    # On NeverBlock 100 fibers share the connections; on async each connection has a fiber of its own, as each has a thread.
    FIBERS = 100
    LIMIT = 300 # seconds of a measurement: those of 200,000 documents take longer than others

    CONTESTANTS = [
      Database::Contestant.ours(CONNECTIONS),
      Database::Contestant.async(CONNECTIONS, "#5dade2"),
      Database::Contestant.threads(CONNECTIONS, "#7f8c8d"),
      Database::Contestant.blocking
    ].freeze

    private

    def missing = ::Bench::Servers::Core.missing || Servers.missing(rows.map(&:store).uniq)

    # The stores are with this process on one core; what is measured is tied to the other.
    def within(&) = ::Bench::Servers::Core::CLIENT.hold { Servers.open(rows.map(&:store).uniq, &) }

    def group(row) = row.title

    def sample(servers, row, contestant)
      options = {place: servers.place(row.store), work: row.work, operations: row.operations(quick: @options.quick?), connections: contestant.connections, fibers: FIBERS}
      ChildProcess.new("stores/child.rb", contestant, row.store, wrapper: ::Bench::Servers::Core::SERVER.tie, groups: row.groups, limit: LIMIT, **options).measure
    end

    def notes(servers)
      [servers.versions, "#{LoadPath.versions.slice("dalli", "redis-client", "pg", "trilogy", "async").map { |pair| pair.join(" ") }.join(", ")}.",
        "A document is JSON of some 250 bytes; each that is read is compared with what was written. A multiget is of #{Row::KEYS} keys, and counts as one operation.",
        "All stores are reached by unix sockets. \"neverblock\": #{FIBERS} fibers on #{CONNECTIONS} connections, by `NeverBlock::ConnectionPool` (memcached, Redis), `NeverBlock::Postgres` and " \
          "`NeverBlock::MySQL`. \"async\", \"threads\": #{CONNECTIONS} fibers or threads with a connection each. \"blocking\": one connection, one operation after the other."]
    end
  end
end
