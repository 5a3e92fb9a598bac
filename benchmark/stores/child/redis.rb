# frozen_string_literal: true

# Documents in Redis, by redis-client.
#
#   Redis.open({path: "/tmp/socket"}, library: "threads", connections: 32)
require "redis-client"
require_relative "clients"

class Redis
  def self.open(place, library:, connections:)
    config = RedisClient.config(path: place.fetch(:path))
    new(Clients.for(library, connections) { config.new_client })
  end

  def initialize(clients)
    @clients = clients
  end

  def empty = @clients.with { |client| client.call("FLUSHALL") }

  def fill(documents) = @clients.with { |client| documents.each_slice(1000) { |some| client.call("MSET", *some.flatten) } }

  def get(key) = @clients.with { |client| client.call("GET", key) }

  def set(key, text) = @clients.with { |client| client.call("SET", key, text) }

  def multiget(keys) = keys.zip(@clients.with { |client| client.call("MGET", *keys) }).to_h.compact

  def delete(key) = @clients.with { |client| client.call("DEL", key) }

  def close = @clients.close(&:close)
end
