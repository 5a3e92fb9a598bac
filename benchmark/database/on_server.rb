# frozen_string_literal: true

# What the benchmarks with a database have in common: the rows say how far away it is, and it runs while they are measured.
# The class that includes it has the database as `database`.
#
#   class Bench::Mysql
#     include Bench::Benchmark
#     include Bench::Database::OnServer
#
#     private
#
#     def database = Server
require_relative "../bench/benchmark"
require_relative "../servers/core"
require_relative "contestant"

module Bench
  class Database
    module OnServer
      private

      def missing = Servers::Core.missing || database.missing

      # The database and the proxies are with this process on one core; what is measured is tied to the other.
      # @yieldparam server [Server]
      def within(&) = Servers::Core::CLIENT.hold { database.open(rows.map(&:round_trip).uniq, &) }

      # A process of the benchmark's, tied to its core.
      # @return [ChildProcess]
      def child(script, contestant, work, groups: %i[default database], **options)
        ChildProcess.new(script, contestant, work, wrapper: Servers::Core::SERVER.tie, groups:, **options)
      end

      # @return [String] versions of the database and of these gems
      def versions(server, *gems) = "#{database::TITLE} #{server.version}, #{LoadPath.versions.slice(*gems).map { |pair| pair.join(" ") }.join(", ")}."
    end
  end
end
