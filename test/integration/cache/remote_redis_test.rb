# frozen_string_literal: true

# slow: starts Redis

require "test_helper"
require "support/cache_remote_hosts"
require "support/cache_remote_stores"
require "support/redis"

# Responses in Redis.
class CacheRemoteRedisTest < Minitest::Test
  include NeverBlockTest::CacheRemoteStores
  include NeverBlockTest::CacheRemoteHosts

  def self.missing = NeverBlockTest::RedisServer.missing || ("redis-client is not among the gems here" unless Gem.loaded_specs.key?("redis-client"))

  def self.start = NeverBlockTest::RedisServer.start

  def url(server) = "unix://#{server.path}"

  def url_at(port) = "redis://127.0.0.1:#{port}/0"

  def address(server) = server.path

  def new_client(server)
    NeverBlock::Cache::RemoteStore::Redis.new(RedisClient.config(path: server.path), connections: 1, timeout: LONG, expires_in: 3_600)
  end

  def url_of(path) = "unix://#{path}"

  def renew(server)
    server.signal(:KILL)
    server.stop
    self.class.start
  end

  def test_a_key_that_is_something_else
    store.write(KEY, entry("x"))
    [["SET", "text"], ["RPUSH", "item"]].each do |command, value|
      redis("DEL", shelf.entries)
      redis(command, shelf.entries, value)
      assert_equal [], store.read(KEY)
      redis("DEL", shelf.entries)
      redis(command, shelf.entries, value)
      assert store.write(KEY, entry("x")), command
      assert_equal ["x"], bodies(KEY)
    end
  end

  def test_a_server_that_forgets_its_scripts
    store.write(KEY, entry("x"))
    redis("SCRIPT", "FLUSH")
    assert store.write(KEY, entry("y"))
    assert_equal ["y"], bodies(KEY)
    assert_equal 0, store.stats[:errors]
  end

  def test_the_older_protocol
    config = RedisClient.config(path: self.class.server.path, protocol: 2)
    @store = NeverBlock::Cache::Stores.open({redis: config, namespace: @namespace}).tap { |one| @stores << one }
    store.write(KEY, entry("x", tags: %w[a]))
    assert_equal ["x"], bodies(KEY)
    assert_equal 1, store.purge(KEY)
    assert_match(/Redis at .*socket/, store.inspect)
  end

  # A full server refuses to write, and is read nevertheless.
  def test_a_server_without_room
    store.write(KEY, entry("x"))
    redis("CONFIG", "SET", "maxmemory", "1")
    refute store.write(OTHER, entry("y"))
    assert_equal ["x"], bodies(KEY)
    assert_equal 1, store.stats[:errors], @lines
    refute_predicate store, :resting?
  ensure
    redis("CONFIG", "SET", "maxmemory", "0")
  end

  private

  def redis(*command) = (@redis ||= RedisClient.config(path: self.class.server.path).new_client).call(*command)
end
