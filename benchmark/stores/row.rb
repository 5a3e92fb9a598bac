# frozen_string_literal: true

# A row of the stores benchmark: a store, and what is done with it.
#
#   row = Bench::Stores::ROWS.find { |candidate| candidate.id == "redis_get" }
#   row.title                     # => "Redis: get"
#   row.operations(quick: true)   # => 2_000
module Bench
  class Stores
    STORES = {"memcached" => "memcached", "redis" => "Redis", "postgres" => "PostgreSQL, jsonb", "mariadb" => "MariaDB, json"}.freeze
    # Each document once; or a number of operations on some.
    WORKS = {
      "create" => "create, each once", "query" => "query, each once", "delete" => "delete, each once",
      "get" => "get", "set" => "set", "multiget" => "multiget", "missing" => "get of a missing one", "mixed" => "nine get, one set"
    }.freeze

    Row = Data.define(:store, :work) do
      # @return [String]
      def id = "#{store}_#{work}"

      # @return [String]
      def title = "#{STORES.fetch(store)}: #{WORKS.fetch(work)}"

      # @return [Integer]
      def operations(quick:)
        count = each_once? ? self.class::DOCUMENTS : self.class::OPERATIONS
        count /= self.class::KEYS if work == "multiget"
        quick ? count / self.class::QUICK : count
      end

      # @return [Boolean] whether it is done with each document
      def each_once? = %w[create query delete].include?(work)

      # @return [Array<Symbol>] groups of the benchmarks' Gemfile
      def groups = [:default, :stores, *{"postgres" => :database, "mariadb" => :mysql}[store]]
    end

    Row::DOCUMENTS = 200_000
    Row::OPERATIONS = 20_000
    Row::QUICK = 20 # --quick does so many times less
    Row::KEYS = 20 # of a multiget

    ROWS = STORES.keys.product(WORKS.keys).map { |store, work| Row.new(store:, work:) }.freeze
  end
end
