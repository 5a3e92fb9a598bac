# frozen_string_literal: true

# Documents in a json column of MariaDB, by trilogy, or NeverBlock::MySQL.
#
#   Mariadb.open({socket: "/tmp/s", username: "shop", database: "shop"}, library: "threads", connections: 32)
require "trilogy"
require_relative "clients"

class Mariadb
  TABLE = "create table if not exists documents (`key` varchar(64) primary key, body json not null)"

  def self.open(place, library:, connections:)
    if library == "neverblock"
      require "neverblock/mysql"
      return new(Clients::One.new(NeverBlock::MySQL.new(place, connections:)))
    end
    new(Clients.for(library, connections) { Trilogy.new(place.dup) })
  end

  def initialize(clients)
    @clients = clients
  end

  def empty
    execute(TABLE)
    execute("truncate documents")
  end

  def fill(documents)
    documents.each_slice(1000) do |some|
      execute("insert into documents (`key`, body) values #{some.map { |key, text| "('#{key}', '#{text}')" }.join(", ")}")
    end
  end

  def get(key) = execute("select body from documents where `key` = '#{key}'").rows.dig(0, 0)

  def set(key, text) = execute("insert into documents (`key`, body) values ('#{key}', '#{text}') on duplicate key update body = values(body)")

  def multiget(keys) = execute("select `key`, body from documents where `key` in (#{keys.map { |key| "'#{key}'" }.join(", ")})").rows.to_h

  def delete(key) = execute("delete from documents where `key` = '#{key}'")

  def close = @clients.close(&:close)

  private

  def execute(sql) = @clients.with { |client| client.query(sql) }
end
