# frozen_string_literal: true

# What the benchmarks with PostgreSQL have in common.
#
#   class Bench::Cost
#     include Bench::Benchmark
#     include Bench::Database::OnPostgres
require_relative "on_server"
require_relative "server"

module Bench
  class Database
    module OnPostgres
      include OnServer

      private

      def database = Server
    end
  end
end
