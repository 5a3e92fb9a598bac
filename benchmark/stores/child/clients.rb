# frozen_string_literal: true

# Clients of a store: one; one for each thread or fiber; or a pool of NeverBlock's.
#
#   clients = Clients.for("threads", 32) { Dalli::Client.new(path) }
#   clients.with { |client| client.get("key") }
#   clients.close(&:close)
class Clients
  # @param library [String] a contestant's
  # @param connections [Integer]
  # @yieldreturn [Object] a new client
  # @return [Object] with `with` and `close`
  def self.for(library, connections, &open)
    case library
    when "neverblock" then Pooled.new(connections, &open)
    when "blocking" then One.new(open.call)
    else new(&open)
    end
  end

  # One for all: a plain client, or a database of NeverBlock's, which is a pool by itself.
  One = Struct.new(:client) do
    def with = yield(client)

    def close = yield(client)
  end

  class Pooled
    def initialize(connections, &)
      require "neverblock/connection_pool"
      @pool = NeverBlock::ConnectionPool.new(size: connections, timeout: 60, &)
    end

    def with(&) = @pool.with(&)

    def close(&) = @pool.shutdown(&)
  end

  def initialize(&open)
    @open = open
    @all = []
  end

  # Thread.current[] is the fiber's.
  def with = yield(Thread.current[:client] ||= @open.call.tap { |client| @all << client })

  def close(&) = @all.each(&)
end
