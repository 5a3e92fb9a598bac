# frozen_string_literal: true

# Documents in memcached, by dalli.
#
#   Memcached.open({path: "/tmp/socket"}, library: "threads", connections: 32)
require "dalli"
require_relative "clients"

class Memcached
  def self.open(place, library:, connections:)
    new(Clients.for(library, connections) { Dalli::Client.new(place.fetch(:path), threadsafe: false, raw: true) })
  end

  def initialize(clients)
    @clients = clients
  end

  def empty = @clients.with(&:flush_all)

  def fill(documents) = @clients.with { |client| documents.each { |key, text| client.set(key, text) } }

  def get(key) = @clients.with { |client| client.get(key) }

  def set(key, text) = @clients.with { |client| client.set(key, text) }

  def multiget(keys) = @clients.with { |client| client.get_multi(*keys) }

  def delete(key) = @clients.with { |client| client.delete(key) }

  def close = @clients.close(&:close)
end
