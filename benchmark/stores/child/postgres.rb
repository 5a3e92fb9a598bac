# frozen_string_literal: true

# Documents in a jsonb column of PostgreSQL, by pg: prepared statements on each connection, or NeverBlock::Postgres.
#
#   Postgres.open({url: "postgresql:///shop"}, library: "threads", connections: 32)
require "pg"
require_relative "clients"

class Postgres
  TABLE = "create table if not exists documents (key text primary key, body jsonb not null)"
  STATEMENTS = {
    get: "select body from documents where key = $1",
    set: "insert into documents (key, body) values ($1, $2) on conflict (key) do update set body = excluded.body",
    multiget: "select key, body from documents where key = any($1::text[])",
    delete: "delete from documents where key = $1"
  }.freeze

  def self.open(place, library:, connections:)
    if library == "neverblock"
      require "neverblock/postgres"
      return new(Clients::One.new(NeverBlock::Postgres.new(place.fetch(:url), connections:)))
    end
    new(Clients.for(library, connections) { PG.connect(place.fetch(:url)) })
  end

  def initialize(clients)
    @clients = clients
    @arrays = PG::TextEncoder::Array.new
  end

  def empty
    execute("set client_min_messages to warning")
    execute(TABLE)
    execute("truncate documents")
  end

  def fill(documents)
    documents.each_slice(1000) do |some|
      values = some.each_index.map { |index| "($#{2 * index + 1}, $#{2 * index + 2})" }.join(", ")
      execute("insert into documents (key, body) values #{values}", some.flatten)
    end
  end

  def get(key) = execute(STATEMENTS[:get], [key]).then { |result| result.getvalue(0, 0) if result.ntuples == 1 }

  def set(key, text) = execute(STATEMENTS[:set], [key, text])

  def multiget(keys) = execute(STATEMENTS[:multiget], [@arrays.encode(keys)]).values.to_h

  def delete(key) = execute(STATEMENTS[:delete], [key])

  def close = @clients.close(&:close)

  private

  def execute(sql, params = []) = @clients.with { |client| client.exec(sql, params) }
end
