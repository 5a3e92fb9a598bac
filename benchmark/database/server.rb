# frozen_string_literal: true

# The PostgreSQL that is measured against, at several distances, for as long as the block runs: a private one, with a delay
# proxy for each round trip that is not nothing.
#
#   Bench::Database::Server.open([0, 0.001]) do |server|
#     server.place(0.001)                  # => {host: "127.0.0.1", port: 40001, ...}, for PG.connect
#     server.watch(0.001) { measure }      # => [what the block returned, {"backends" => 8, ...}]
#   end
require_relative "../bench/clock"
require_relative "../bench/failure"
require_relative "../servers/core"
require_relative "../../test/support/delay_proxy"
require_relative "../../test/support/postgres"

module Bench
  class Database
    class Server
      TITLE = "PostgreSQL"
      NAME = "bench"
      ITEMS = 10_000
      SLOW = 0.05 # seconds
      SETTINGS = {max_connections: 250, shared_buffers: "256MB", autovacuum: "off", max_wal_size: "4GB", jit: "off"}.freeze

      # The text of a statement on a view doesn't show that it is slow: only its duration does.
      SCHEMA = <<~SQL
        create table items (id serial primary key, name text not null, balance integer not null default 0) with (fillfactor = 50);
        insert into items (name) select 'Item ' || number from generate_series(1, #{ITEMS}) as number;
        create table entries (id serial primary key, name text not null, kind integer not null);
        create view slow as select pg_sleep(#{SLOW})::text as pause;
        analyze items;
      SQL

      # @return [String, nil] the reason why it can't run
      def self.missing
        require_relative "backends"
        NeverBlockTest::PostgresServer.missing || NeverBlockTest::DelayProxy.missing
      rescue LoadError
        "the gem pg is not installed: .neverblock/log/bench-bundle.log says why"
      end

      # @param round_trips [Array<Float>] seconds
      # @yieldparam server [Server]
      # @return [Object] the block's value
      def self.open(round_trips)
        NeverBlockTest::PostgresServer.open(**SETTINGS) do |postgres|
          server = new(postgres, round_trips)
          yield server
        ensure
          server&.close
        end
      end

      # @return [String] of PostgreSQL
      attr_reader :version

      def initialize(postgres, round_trips)
        @postgres = postgres
        @backends = Backends.new(postgres.url, NAME)
        @version = @backends.version
        postgres.query("create database #{NAME}")
        postgres.query(SCHEMA, database: NAME)
        @proxies = round_trips.reject(&:zero?).to_h { |delay| [delay, NeverBlockTest::DelayProxy.new(to: postgres.socket, delay:)] }
      end

      # Without encryption: the duration of statements is measured.
      # @param round_trip [Float] seconds
      # @return [Hash{Symbol=>Object}] for PG.connect
      def place(round_trip)
        proxy = @proxies[round_trip]
        {host: proxy ? "127.0.0.1" : @postgres.folder, port: proxy ? proxy.port : @postgres.port, dbname: NAME, user: @postgres.user, sslmode: "disable", gssencmode: "disable"}
      end

      # @param round_trip [Float]
      # @yieldreturn [Hash{String=>Object}] figures of a process that was connected
      # @return [Hash{String=>Object}] those figures, and some from outside: its maximum of connections, and how busy the
      #   proxy was
      def watch(round_trip)
        @backends.wait_until_none
        before, started = proxy_time(round_trip), Clock.now
        figures = @backends.watch { yield }
        {**figures, "proxy_busy" => (proxy_time(round_trip) - before) / (Clock.now - started)}
      end

      # @return [Integer] the process id of PostgreSQL's first process
      def process = @postgres.postmaster

      # Leaves a hundred entries.
      def empty = @postgres.query("truncate entries; insert into entries (name, kind) select 'Entry', number % 10 from generate_series(1, 100) as number", database: NAME)

      # Leaves no room in the table from the transactions before.
      def tidy = @postgres.query("vacuum items", database: NAME)

      def close
        @proxies&.each_value(&:close)
        @backends&.close
      end

      private

      # @return [Float] seconds of processor time so far
      def proxy_time(round_trip) = @proxies[round_trip]&.cpu || 0.0
    end
  end
end
