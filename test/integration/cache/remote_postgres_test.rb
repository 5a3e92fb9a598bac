# frozen_string_literal: true

# slow: starts PostgreSQL

require "test_helper"
require "support/cache_remote_hosts"
require "support/cache_remote_stores"
require "support/postgres"
require "support/virtual_time"

# Responses in PostgreSQL.
class CacheRemotePostgresTest < Minitest::Test
  include NeverBlockTest::CacheRemoteStores
  include NeverBlockTest::CacheRemoteHosts

  def self.missing = NeverBlockTest::PostgresServer.missing || ("pg is not among the gems here" unless Gem.loaded_specs.key?("pg"))

  def self.start = NeverBlockTest::PostgresServer.start(max_connections: 80)

  def url(server) = server.url

  def url_at(port) = "postgresql://postgres@127.0.0.1:#{port}/postgres"

  def address(server) = server.socket

  def new_client(server)
    NeverBlock::Cache::RemoteStore::Postgres.new(url: server.url, connections: 1, table: "neverblock_cache", bytes: 1 << 30, expires_in: 3_600)
  end

  # Its socket has the port in its name.
  def own_url = @own.url

  # After a crash the table is empty.
  def renew(server) = server.tap { server.restart(:immediate) }

  def link = nil

  def test_the_databases_of_an_app
    require "neverblock/postgres"
    database = NeverBlock::Postgres.new(self.class.server.url, connections: 3)
    @store = NeverBlock::Cache::Stores.open({postgres: database, namespace: @namespace, table: "public.pages", timeout: LONG})
    store.write(KEY, entry("x", tags: %w[a]))
    assert_equal ["x"], in_run { bodies(KEY) }
    assert_equal "t", self.class.server.query("select relpersistence = 'u' from pg_class where relname = 'pages'")
    store.close
    assert_equal "1", database.exec("select 1").getvalue(0, 0), "it is not ours"
  ensure
    database&.close
  end

  # A write that is undone would leave a purge undone.
  def test_it_is_in_no_transaction_of_the_app
    require "neverblock/postgres"
    database = NeverBlock::Postgres.new(self.class.server.url, connections: 5)
    @store = NeverBlock::Cache::Stores.open({postgres: database, namespace: @namespace, timeout: LONG})
    store.write(KEY, entry("x"))
    in_run do
      raised do
        database.transaction do
          store.purge(KEY)
          raise IOError
        end
      end
      assert_equal [], store.read(KEY)
    end
  ensure
    database&.close
  end

  def test_it_is_swept
    table = "swept_#{@namespace}"
    @store = new_store(table:, bytes: 50_000, expires_in: 3_600)
    12.times { |number| store.write("k#{number}", entry("x" * 10_000)) }
    age(table, "k0", "k1")
    NeverBlockTest::VirtualTime.during do |clock|
      clock.advance(60)
      store.write("last", entry("x"))
    end
    left = Array.new(12) { |number| "k#{number}" }.reject { |key| store.read(key).empty? }
    assert_includes 2..4, left.size
    assert_equal %w[k10 k11], left.last(2)
    assert_equal [["x"], "0"], [bodies("last"), self.class.server.query("select count(*) from #{table} where expires_at < now()")]
    assert_equal 0, store.stats[:errors], @lines
  end

  def test_a_table_that_is_dropped
    table = "dropped_#{@namespace}"
    @store = new_store(table:)
    store.write(KEY, entry("x"))
    self.class.server.query("drop table #{table}")
    assert_equal [], bodies(KEY)
    assert store.write(KEY, entry("y"))
    assert_equal ["y"], bodies(KEY)
  end

  def test_a_table_that_all_miss_at_once
    table = "missed_#{@namespace}"
    stores = Array.new(6) { new_store(table:) }
    found = stores.map { |one| Thread.new { one.write(KEY, entry("x")) } }.map(&:value)
    assert_equal [[true] * 6, [0] * 6], [found, stores.map { |one| one.stats[:errors] }]
  end

  private

  def age(table, *keys)
    names = keys.map { |key| "'#{shelf(key).entries}'" }
    self.class.server.query("update #{table} set expires_at = now() - interval '1 second' where name in (#{names.join(",")})")
  end
end
