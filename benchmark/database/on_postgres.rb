# frozen_string_literal: true

# What the benchmarks with a database have in common: the rows say how far away it is, and it runs while they are measured.
#
#   class Bench::Cost
#     include Bench::Benchmark
#     include Bench::Database::OnPostgres
require_relative "../bench/benchmark"
require_relative "../servers/core"
require_relative "contestant"
require_relative "server"

module Bench
  class Database
    module OnPostgres
      private

      def missing = Servers::Core.missing || Server.missing

      # PostgreSQL and the proxies are with this process on one core; what is measured is tied to the other.
      # @yieldparam server [Server]
      def within(&) = Servers::Core::CLIENT.hold { Server.open(rows.map(&:round_trip).uniq, &) }

      # A process of the benchmark's, tied to its core.
      # @return [ChildProcess]
      def child(script, contestant, work, **options)
        ChildProcess.new(script, contestant, work, wrapper: Servers::Core::SERVER.tie, groups: %i[default database], **options)
      end

      # @return [String] versions of PostgreSQL and of these gems
      def versions(server, *gems) = "PostgreSQL #{server.version}, #{LoadPath.versions.slice(*gems).map { |pair| pair.join(" ") }.join(", ")}."
    end
  end
end
