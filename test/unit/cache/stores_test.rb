# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "tmpdir"

# Stores by what is written in a configuration.
class CacheStoresTest < Minitest::Test
  include NeverBlockTest::Helpers

  Stores = NeverBlock::Cache::Stores

  def setup = @folder = Dir.mktmpdir("neverblock-cache-test")

  def teardown = FileUtils.remove_entry(@folder)

  def test_memory
    {
      "memory:256m" => 256 << 20, "memory:64k" => 64 << 10, "memory:2G" => 2 << 30, "memory:1048576" => 1 << 20, "memory:64 KiB" => 64 << 10,
      "memory: 5 m" => 5 << 20, "Memory:1m?max_entry=10k&max_variants=3" => 1 << 20, {memory: "3m"} => 3 << 20, {"memory" => 4_096} => 4_096, "memory:65536" => 64 << 10, "memory:1k" => 1 << 10
    }.each do |spec, bytes|
      store = Stores.open(spec)
      assert_instance_of NeverBlock::Cache::MemoryStore, store
      assert_equal bytes, store.stats[:limit], spec
    end
  end

  def test_files
    path = File.join(@folder, "a b")
    {
      "file:#{path}?bytes=2g" => "default", "file://#{path}?bytes=2g&namespace=release-7&memory=1m&max_entry=5m" => "release-7",
      {file: path, bytes: 2 << 30} => "default", {"file" => path, "bytes" => "2g", :namespace => "x", :log => ->(_) {}} => "x"
    }.each do |spec, namespace|
      store = Stores.open(spec)
      assert_instance_of NeverBlock::Cache::FileStore, store
      assert_equal 2 << 30, store.stats[:limit]
      assert_path_exists File.join(path, namespace, "state")
    end
  end

  def test_objects
    store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20)
    assert_same store, Stores.open(store)
    double = Class.new { %i[read generation write purge purge_tag clear stats close].each { |name| define_method(name) {} } }.new
    assert_same double, Stores.open(double)
  end

  def test_rails_stores
    skip "activesupport is not among the gems here" unless Gem.loaded_specs.key?("activesupport")
    require "active_support"
    require "active_support/cache"
    assert_instance_of NeverBlock::Cache::ActiveSupportStore, Stores.open(ActiveSupport::Cache::MemoryStore.new)
  end

  def test_remote_stores
    skip "a client is not among the gems here" unless %w[redis-client dalli pg].all? { |name| Gem.loaded_specs.key?(name) }
    {
      "redis://cache.internal:6380/2?namespace=shop&timeout=0.5&max_entry=4m" => "Redis at cache.internal:6380",
      "rediss://:secret@cache.internal" => "Redis at cache.internal:6379", "unix:///run/redis.sock?db=3" => "Redis at /run/redis.sock",
      {redis: "//cache.internal"} => "Redis at cache.internal:6379", "memcached://a:1, b:2" => "memcached at a:1, b:2",
      {memcached: %w[a b], lease: 0} => "memcached at a, b", "postgresql://u:secret@db/shop?sslmode=require&table=caches.pages" => "PostgreSQL",
      "postgres:///shop" => "PostgreSQL"
    }.each do |spec, name|
      store = Stores.open(spec)
      assert_equal "#<NeverBlock::Cache::RemoteStore #{name}>", store.inspect
      assert_equal (Hash === spec && spec[:lease]) ? true : false, store.leases.nil?
      assert_equal spec.to_s.include?("4m") ? 4 << 20 : 1_000_000, store.max_entry
      store.close
    end
  end

  def test_a_missing_gem_is_named
    {"redis://x" => "redis-client", "memcached://x" => "dalli", "postgresql:///x" => "pg"}.each do |spec, name|
      assert_ruby(<<~RUBY)
        require "neverblock/cache"
        begin
          NeverBlock::Cache::Stores.open(#{spec.inspect})
          abort "it was found"
        rescue NeverBlock::ConfigurationError => error
          abort error.message unless error.message.include?("needs the gem #{name}, and there is none: run `bundle add #{name}`")
        end
        abort "it was loaded" if defined?(RedisClient) || defined?(Dalli) || defined?(PG)
      RUBY
    end
  end

  def test_sizes
    assert_equal [1 << 10, 5 << 20, 3 << 30, 77, 2_000], ["1k", "5M", "3 g", 77, "2KB"].map { |value| Stores.size(value, "x") }
    ["", "1t", "-1m", "1.5m", "m", "0k", 0, -1, nil, 1.5, "9999999999999g", "999999999999g"].each do |value|
      error = assert_raises(NeverBlock::ConfigurationError) { Stores.size(value, "x") }
      assert_match(/\Ax .* is not a number of bytes/, error.message)
    end
  end

  def test_what_is_refused
    {
      "memory" => /"memory" is none that is known. For example: "memory:256m"/,
      "http://user:secret@x" => %r{store: "http://x" is none that is known},
      "redis://x?size=3" => /a redis store has no option size. It has namespace/,
      "redis://x?timeout=0" => /timeout: 0.0 is not a number of seconds/,
      "redis://x?timeout=soon" => /timeout: "soon" is not a number of seconds/,
      "redis://x?lease=-1" => /lease: -1.0 is not a number of seconds/,
      "redis://x?connections=0" => /connections: 0 is not a whole number/,
      "redis://x?namespace=a%20b" => /namespace: "a b" is not a name/,
      "redis://:secret@x/nine" => %r{\Astore: redis: (?!.*secret)},
      "memcached://" => /memcached: \[\] is not a list of servers/,
      {memcached: []} => /memcached: \[\] is not a list of servers/,
      {redis: 5} => /redis: 5 is not a URL or a configuration/,
      {postgres: 5} => /postgres: 5 is not a URL or a NeverBlock::Postgres/,
      "postgresql:///x?table=a;b" => /table: "a;b" is not a name/,
      "" => /is none/,
      "memory:" => /memory: "" is not a number of bytes/,
      "memory:256" => /memory: 256 would be a store of 256 bytes\. Did you mean memory:256m\?/,
      "memory:65535" => /Did you mean/,
      "file:#{@folder}/c?bytes=2" => /bytes: 2 would be a store of 2 bytes\. Did you mean bytes=2m\?/,
      "memory:lots" => /memory: "lots"/,
      "memory:1m?size=3" => /a memory store has no option size. It has over, fresh_for, max_entry/,
      "memory:1m?max_tags=x" => /max_tags: "x" is not a whole number/,
      "memory:1m?max_tags=1&max_tags=2" => /has max_tags twice/,
      "memory:1m?%zz" => /no option %zz/,
      "file:" => /"" is not an absolute path/,
      "file:cache?bytes=1m" => /"cache" is not an absolute path/,
      "file:#{@folder}" => /the size of the file store .* is missing\. For example: "file:\/var\/cache\/app\?bytes=2g"\z/,
      "file:#{@folder}?bytes=1m&namespace=.." => /namespace/,
      "file:/dev/null?bytes=1m" => /is not a folder/,
      {} => /is none/,
      {bytes: "1m", file: "/tmp/x"} => /is none/,
      nil => /nil is not a store: it has no read, generation/,
      5 => /5 is not a store/,
      :memory => /is not a store/
    }.each do |spec, message|
      error = assert_raises(NeverBlock::ConfigurationError, spec.inspect) { Stores.open(spec) }
      assert_match message, error.message
    end
  end
end
