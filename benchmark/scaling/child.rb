# frozen_string_literal: true

# One measurement of the scaling benchmark, in a process of its own:
#
#   ruby child.rb neverblock tasks '{"count":1000,"place":{...}}'
#
# Creates a given number of things, then measures an operation next to them. Prints one line of JSON.
require "json"
require "uri"
require "neverblock"
require "neverblock/postgres"
require_relative "../bench/meter"

_, name, options = ARGV
options = JSON.parse(options, symbolize_names: true)
COUNT = options.fetch(:count)
PLACE = options.fetch(:place)
METER = Bench::Meter.new

# Warms up, measures, and prints.
def measure(operations, warm: operations / 10 + 1, &operation)
  warm.times(&operation)
  METER.measure(operations) { operations.times(&operation) }
  puts JSON.generate(METER.reading)
  $stdout.flush
  exit!(0) # nothing of ending so many is measured
end

def task = NeverBlock.spawn { 1 }.value

def connect(place = PLACE) = PG.connect(**place)

def client(place = PLACE, **options)
  NeverBlock::Postgres.new("postgresql:///#{place[:dbname]}?#{URI.encode_www_form(place.except(:dbname))}", log: ->(_) {}, **options)
end

# A database of its own, with as many tables with a trigger each; they have few names, as schemas of tenants do.
def with_tables
  other = PLACE.merge(dbname: "scaling")
  connect.then { |admin| ["drop database if exists scaling with (force)", "create database scaling"].each { |sql| admin.exec(sql) } }
  connect(other).exec("create function touch() returns trigger language plpgsql as 'begin return new; end'; create table read as select 1 as id")
  COUNT.times.each_slice(500) do |numbers|
    connect(other).exec(numbers.group_by { |number| number / 50 }.map { |schema, tables|
      "create schema if not exists s#{schema};" + tables.map { |number|
        table = "s#{schema}.t#{number % 50}"
        "create table #{table} (id int primary key, at timestamptz default now()); create trigger touch before update on #{table} for each row execute function touch();"
      }.join
    }.join)
  end
  connect(other).exec("analyze")
  yield client(other, connections: 4)
end

WORKLOADS = {
  "tasks" => lambda do
    queue = Queue.new
    COUNT.times { NeverBlock.spawn { queue.pop } }
    NeverBlock.pass until queue.num_waiting == COUNT
    measure(2_000) { task }
  end,
  "leases" => lambda do
    database = client(connections: 3, max_waiting: 2 * COUNT + 10, timeout: nil)
    read = -> { database.exec("select name from items where id = $1", [1]) }
    100.times { read.call }
    (COUNT + 2).times { NeverBlock.spawn { database.transaction { |connection| connection.exec("select 1") && sleep } } }
    sleep(0.01) until database.stats.values_at(:held, :queued) == [2, COUNT]
    measure(300) { read.call }
  end,
  "catalogue" => lambda do
    with_tables do |database|
      read = -> { database.exec("select id from read") }
      read.call
      number = 0
      measure(5, warm: 1) do
        database.exec("create table more_#{number += 1} (id int primary key, name text)")
        read.call
      end
    end
  end,
  "text" => lambda do
    database = client(connections: 2)
    text = "select length('#{"it''s \\n a line\n" * (COUNT * 1_000 / 16)}')"
    measure(10) { database.exec(text) }
  end,
  "rows" => lambda do
    database = client(connections: 2)
    database.exec("create table if not exists scaling_rows (id int, name text, note text)")
    text = "insert into scaling_rows values #{Array.new(COUNT) { |n| "(#{n}, 'it''s #{n}', #{n.even? ? "null" : "'x'"})" }.join(", ")}"
    measure(10) { database.exec(text) }
  end,
  "threads" => lambda do
    queue = Queue.new
    COUNT.times { Thread.new { queue.pop } }
    sleep(0.001) until queue.num_waiting == COUNT
    measure(2_000) { task }
  end,
  "pools" => lambda do
    pools = Array.new(COUNT) { NeverBlock::ConnectionPool.new(size: 1) { Object.new } }
    pools.each { |pool| pool.with(&:itself) }
    measure(200) { NeverBlock::ConnectionPool.new(size: 1) { Object.new }.tap { |pool| pools << pool }.with(&:itself) }
  end,
  "loops" => lambda do
    begun = Queue.new
    COUNT.times { Thread.new { NeverBlock.run { begun << true && sleep } } }
    COUNT.times { begun.pop }
    measure(2_000) { task }
  end
}.freeze

NeverBlock.run { WORKLOADS.fetch(name).call }
