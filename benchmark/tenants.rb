# frozen_string_literal: true

# The cost of a tenant's setting for a request, by the way in which it is set, as a table:
#
#   ruby -Ilib benchmark/tenants.rb                     # a quarter of a minute
#   ruby -I../before/lib benchmark/tenants.rb           # the same with another checkout, compiled
#
# A request takes an Active Record adapter, sets `app.tenant`, finds an item by a prepared statement, and checks the adapter in. One
# after the other that is its wall time, the upkeep of its connection beside it; ten at once on four connections, it is the processor time
# of the process and of PostgreSQL. The rounds of all ways take turns, and the median is told.
require_relative "bench/load_path"
require_relative "../test/support/postgres"
require "neverblock/active_record"

module Tenants
  ROUNDS = 7
  REQUESTS = 300
  FIBERS = 10
  CONNECTIONS = 4
  IDS = 100

  # An item of the table that is read.
  class Item < ActiveRecord::Base
  end

  WAYS = {
    "nothing" => ->(connection, _number, &find) { find.call },
    "`SET app.tenant`" => ->(connection, number, &find) { connection.execute("SET app.tenant = '#{number}'") && find.call },
    "`SET app.tenant`, `RESET app.tenant`" => lambda do |connection, number, &find|
      connection.execute("SET app.tenant = '#{number}'")
      find.call
      connection.execute("RESET app.tenant")
    end,
    "`set_config('app.tenant', …, false)`" => ->(connection, number, &find) { connection.execute("SELECT set_config('app.tenant', '#{number}', false)") && find.call },
    "`SET LOCAL` in a transaction" => ->(connection, number, &find) { connection.transaction { connection.execute("SET LOCAL app.tenant = '#{number}'") && find.call } },
    "`with_settings`" => ->(connection, number, &find) { connection.with_settings("app.tenant" => number, &find) },
    "`SET work_mem`" => ->(connection, number, &find) { connection.execute("SET work_mem = '#{4 + number % 4}MB'") && find.call }
  }.freeze

  module_function

  def table
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    NeverBlockTest::PostgresServer.open do |server|
      ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", connections: CONNECTIONS, host: server.folder, port: server.port, username: server.user, database: "postgres")
      server.query("create table items (id int primary key, name text); insert into items select n, 'item ' || n from generate_series(1, #{IDS}) n")
      server.query("alter table items enable row level security; create policy own on items using (true)")
      rows = NeverBlock.run { measure(server) }
      puts "| a request with | wall | processor of the process | and of PostgreSQL |", "| --- | ---: | ---: | ---: |"
      rows.each { |name, figures| puts "| #{name} | #{figures.map { |seconds| "#{(seconds * 1_000_000).round} µs" }.join(" | ")} |" }
      ActiveRecord::Base.connection_handler.clear_all_connections!
    end
  end

  # @return [Hash{String=>Array<Float>}] seconds, the median of the rounds
  def measure(server)
    Item.load_schema
    WAYS.each_value { |way| at_once(way) }
    rounds = Array.new(ROUNDS) { WAYS.transform_values { |way| [*one_by_one(way), *processor(server, way)] } }
    WAYS.to_h { |name, _| [name, rounds.map { |round| round[name] }.transpose.map { |figures| figures.sort[ROUNDS / 2] }] }
  end

  def one_by_one(way)
    begun = now
    REQUESTS.times { |number| request(way, number) }
    (now - begun) / REQUESTS
  end

  def processor(server, way)
    before = [Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), backends(server)]
    at_once(way)
    after = [Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), backends(server)]
    [after[0] - before[0], after[1].sum { |process, seconds| seconds - before[1].fetch(process, 0.0) }].map { |seconds| seconds / REQUESTS }
  end

  def at_once(way) = NeverBlock.concurrently((0...REQUESTS).to_a, limit: FIBERS) { |number| request(way, number) }

  def request(way, number)
    id = 1 + number % IDS
    Item.with_connection do |connection|
      way.call(connection, number) { raise "another item was found" unless Item.find(id).id == id }
    end
  end

  # @return [Hash{Integer=>Float}] processor seconds of the server's processes
  def backends(server)
    Dir["/proc/#{server.postmaster}/task/*/children"].flat_map { |path| File.read(path).split }.to_h do |process|
      [process.to_i, File.read("/proc/#{process}/schedstat").split.first.to_i / 1e9]
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

Tenants.table
