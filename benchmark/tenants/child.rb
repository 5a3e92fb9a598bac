# frozen_string_literal: true

# One measurement of the tenants benchmark, in a process of its own:
#
#   ruby child.rb neverblock set_local '{"connections":4,"postmaster":4711,"place":{...}}'
#
# A request takes an Active Record adapter, sets `app.tenant`, finds an item by a prepared statement, and checks the adapter in.
# Prints one line of JSON.
require "json"
require "neverblock"
require_relative "../bench/meter"
require_relative "../database/child/active_record"
require_relative "../servers/process_tree"

REQUESTS = 300
FIBERS = 10
IDS = 100

WAYS = {
  "nothing" => ->(_connection, _number, &find) { find.call },
  "set" => ->(connection, number, &find) { connection.execute("SET app.tenant = '#{number}'") && find.call },
  "set_reset" => lambda do |connection, number, &find|
    connection.execute("SET app.tenant = '#{number}'")
    find.call
    connection.execute("RESET app.tenant")
  end,
  "set_config" => ->(connection, number, &find) { connection.execute("SELECT set_config('app.tenant', '#{number}', false)") && find.call },
  "set_local" => ->(connection, number, &find) { connection.transaction { connection.execute("SET LOCAL app.tenant = '#{number}'") && find.call } },
  "with_settings" => ->(connection, number, &find) { connection.with_settings("app.tenant" => number, &find) },
  "work_mem" => ->(connection, number, &find) { connection.execute("SET work_mem = '#{4 + number % 4}MB'") && find.call }
}.freeze

_, name, options = ARGV
options = JSON.parse(options, symbolize_names: true)
way = WAYS.fetch(name)
postgres = Bench::Servers::ProcessTree.new(options.fetch(:postmaster))
meter = Bench::Meter.new

NeverBlock.run do
  layer = Measured::ActiveRecordLayer.open(options.fetch(:place), own: true, connections: options.fetch(:connections), fibers: true)
  request = lambda do |number|
    Measured::Item.with_connection { |connection| way.call(connection, number) { layer.find(1 + number % IDS) } }
  end
  at_once = -> { NeverBlock.concurrently((0...REQUESTS).to_a, limit: FIBERS, &request) }
  at_once.call # until connections are open, and code is warm
  meter.measure(REQUESTS) { REQUESTS.times(&request) }
  wall = meter.reading.fetch(:wall)
  before = postgres.cpu
  meter.measure(REQUESTS, &at_once)
  puts JSON.generate({**meter.reading, wall:, server_cpu: postgres.cpu - before, libpq: PG.library_version})
  layer.close
end
