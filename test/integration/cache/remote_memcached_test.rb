# frozen_string_literal: true

# slow: starts memcached

require "test_helper"
require "support/cache_remote_hosts"
require "support/cache_remote_stores"
require "support/memcached"

# Responses in memcached.
class CacheRemoteMemcachedTest < Minitest::Test
  include NeverBlockTest::CacheRemoteStores
  include NeverBlockTest::CacheRemoteHosts

  def self.missing
    return "dalli is not among the gems here" unless Gem.loaded_specs.key?("dalli")
    require "dalli"
    Dalli.logger.level = Logger::FATAL
    NeverBlockTest::MemcachedServer.missing
  end

  def self.start = NeverBlockTest::MemcachedServer.start

  def url(server) = "memcached:#{server.path}"

  def url_at(port) = "memcached://127.0.0.1:#{port}"

  def address(server) = server.path

  def new_client(server)
    NeverBlock::Cache::RemoteStore::Memcached.new([server.path], connections: 1, timeout: LONG, expires_in: 3_600, max_value: 2 << 20)
  end

  def url_of(path) = "memcached:#{path}"

  def renew(server)
    server.signal(:KILL)
    server.stop
    self.class.start
  end

  # Each is alone with its names; the others do not take them over.
  def test_several_servers_of_which_one_is_gone
    servers = Array.new(3) { self.class.start }
    store = open_store(:memcached, servers.map(&:path))
    keys = Array.new(30) { |number| "k#{number}" }
    keys.each { |key| assert store.write(key, entry(key, tags: %w[a])) }
    assert_equal keys, keys.select { |key| store.read(key).any? }
    servers.last.signal(:KILL)
    left = keys.select { |key| again(store).read(key).any? }
    assert_operator left.size, :<, 30
    refute_predicate store, :resting?
    keys.each { |key| assert_includes [[], [key]], again(store).read(key).map { |one| body(one) } }
    keys.each do |key|
      written = again(store).write(key, entry("new"))
      assert_includes written ? [[], ["new"]] : [[], [key]], again(store).read(key).map { |one| body(one) }
    end
  ensure
    servers&.each(&:stop)
  end

  def test_values_that_the_server_does_not_take
    @store = new_store(max_entry: 4 << 20)
    refute store.write(KEY, entry("x" * (2 << 20)))
    assert store.write(OTHER, entry("y"))
    assert_equal [["y"], 1], [bodies(OTHER), store.stats[:errors]]
    refute_predicate store, :resting?
  end
end
