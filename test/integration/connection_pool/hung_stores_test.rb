# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "net/http"
require "socket"
require "stringio"
require "support/redis"
require "support/runs"
require "support/virtual_time"

# A store that accepts and never responds, or falls silent in the middle of a response: in 2008 a worker hung on one for
# five minutes. It costs its callers a timeout each, others nothing, and a drain ends in time.
class HungStoresTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # Seconds that a client waits for its store.
  PATIENCE = 3
  CALLERS = 8
  # Seconds in which all callers must have given up, some after a second try: fewer than if they waited for each other.
  LIMIT = 2 * PATIENCE

  # Accepts, says how a response begins if it is asked, and nothing more.
  class SilentStore
    # @param scope [NeverBlock::Scope] its tasks run there
    # @param beginning [String] of a response
    def initialize(scope, beginning = "")
      @server = TCPServer.new("127.0.0.1", 0)
      @sockets = []
      scope.spawn(transient: true) do
        loop do
          @sockets << (socket = @server.accept)
          scope.spawn(transient: true) { socket.readpartial(1) && socket.write(beginning) } unless beginning.empty?
        end
      end
    end

    # @return [Integer]
    def port = @server.addr[1]

    # @return [void]
    def close = [@server, *@sockets].each(&:close)
  end

  # A client, and a call of it.
  CLIENTS = {
    pool_of_redis_client: lambda do |test, port|
      test.need("redis-client")
      require "redis-client"
      pool = NeverBlock::ConnectionPool.new(size: CALLERS, timeout: LIMIT) do
        RedisClient.config(host: "127.0.0.1", port:, timeout: PATIENCE, reconnect_attempts: 0).new_client
      end
      -> { pool.with { |redis| redis.call("GET", "key") } }
    end,
    pool_of_dalli: lambda do |test, port|
      test.need("dalli")
      require "dalli"
      Dalli.logger.level = Logger::FATAL
      pool = NeverBlock::ConnectionPool.new(size: CALLERS, timeout: LIMIT) do
        Dalli::Client.new("127.0.0.1:#{port}", protocol: :meta, socket_timeout: PATIENCE, down_retry_delay: 0, socket_max_failures: 0)
      end
      -> { pool.with { |dalli| dalli.get("key") } }
    end,
    pool_of_net_http: lambda do |_test, port|
      pool = NeverBlock::ConnectionPool.new(size: CALLERS, timeout: LIMIT) do
        Net::HTTP.new("127.0.0.1", port).tap do |http|
          http.read_timeout = PATIENCE
          http.max_retries = 0
          http.start
        end
      end
      -> { pool.with { |http| http.get("/key").body } }
    end,
    pool_of_sockets: lambda do |_test, port|
      pool = NeverBlock::ConnectionPool.new(size: CALLERS, timeout: LIMIT) do
        TCPSocket.new("127.0.0.1", port).tap { |socket| socket.timeout = PATIENCE }
      end
      lambda do
        pool.with do |socket|
          socket.puts("key")
          socket.gets
        end
      end
    end,
    stock_dalli: lambda do |test, port|
      test.need("dalli")
      require "dalli"
      Dalli.logger.level = Logger::FATAL
      -> { Dalli::Client.new("127.0.0.1:#{port}", protocol: :meta, socket_timeout: PATIENCE, down_retry_delay: 0, socket_max_failures: 0).get("key") }
    end,
    mem_cache_store: lambda do |test, port|
      test.need("activesupport", "dalli")
      require "active_support"
      require "active_support/cache"
      require "dalli"
      Dalli.logger.level = Logger::FATAL
      store = ActiveSupport::Cache::MemCacheStore.new("127.0.0.1:#{port}", pool: {size: CALLERS, timeout: LIMIT}, protocol: :meta, socket_timeout: PATIENCE, down_retry_delay: 0, socket_max_failures: 0)
      store.logger = nil
      -> { store.read("key") }
    end,
    redis_cache_store: lambda do |test, port|
      test.need("activesupport", "redis")
      require "active_support"
      require "active_support/cache"
      require "redis"
      store = ActiveSupport::Cache::RedisCacheStore.new(url: "redis://127.0.0.1:#{port}", pool: {size: CALLERS, timeout: LIMIT}, read_timeout: PATIENCE, reconnect_attempts: 0)
      -> { store.read("key") }
    end
  }.freeze

  # How a response to a client begins.
  MEMCACHED = "VERSION 1.6.18\r\nVA 100 f0\r\nbeg"
  BEGINNINGS = {redis: "$100\r\nbeg", dalli: MEMCACHED, mem: MEMCACHED, net: "HTTP/1.1 200 OK\r\nContent-Le", sockets: "beg"}.freeze

  def teardown
    @store&.close
  end

  CLIENTS.each do |name, client|
    beginning = BEGINNINGS.find { |word, _| name.to_s.include?(word.to_s) }.last
    {silent: "", silent_in_mid_response: beginning}.each do |kind, bytes|
      define_method(:"test_#{name}_on_a_store_that_is_#{kind}") do
        ticks = 0
        answers = in_run do |scope|
          @store = SilentStore.new(scope, bytes)
          call = client.call(self, @store.port)
          scope.spawn(transient: true) { loop { sleep(1) && ticks += 1 } }
          Array.new(CALLERS) { scope.spawn { raised { assert_nil(call.call) } } }.map(&:value)
        end
        assert_includes PATIENCE..(LIMIT + 0.1), clock.elapsed
        assert_operator ticks, :>=, PATIENCE - 1, "others ran meanwhile"
        answers.each { |error| assert_kind_of StandardError, error if error }
      end
    end

    define_method(:"test_a_drain_with_#{name}_ends_in_time") do
      in_run do |scope|
        @store = SilentStore.new(scope)
        call = client.call(self, @store.port)
        asked = Thread::Queue.new
        app = lambda do |env|
          next [200, {}, ["fine"]] if env["PATH_INFO"] == "/fine"
          asked << true
          loop do # a caller that tries again and again
            call.call
          rescue
            nil
          end
        end
        server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", shutdown_timeout: 20, error_log: StringIO.new).start
        address = URI(server.addresses.first)
        callers = Array.new(2) { scope.spawn { raised { Net::HTTP.get(address.host, "/", address.port) } } }
        2.times { asked.pop }
        assert_equal "fine", Net::HTTP.get(address.host, "/fine", address.port)
        began = clock.elapsed
        server.stop
        assert_in_delta 20, clock.elapsed - began, 0.1
        callers.each(&:join)
      end
    end
  end

  def test_the_pool_is_as_new_afterwards
    target = nil
    echo = TCPServer.new("127.0.0.1", 0)
    pool = NeverBlock::ConnectionPool.new(size: 2) { TCPSocket.new("127.0.0.1", target).tap { |socket| socket.timeout = 2 } }
    in_run do |scope|
      @store = SilentStore.new(scope)
      target = @store.port
      4.times { scope.spawn { raised { pool.with { |socket| socket.puts("lost") || socket.gets } } } }
    end
    thread = Thread.new { loop { Thread.new(echo.accept) { |socket| socket.each_line { |line| socket.write(line) } } } }
    target = echo.addr[1]
    assert_equal "found\n", pool.with { |socket| (socket.timeout = NeverBlockTest::LIMIT) && socket.puts("found") || socket.gets }
    assert_equal [4, 1, 0], pool.stats.values_at(:interrupted, :idle, :held)
  ensure
    pool&.close
    thread&.kill&.join
    echo&.close
  end

  # docs/connection-pool.md
  def test_rails_store_takes_our_pool
    need("activesupport", "redis")
    reason = NeverBlockTest::RedisServer.missing and skip reason
    require "active_support"
    require "active_support/cache"
    require "redis"
    redis = NeverBlockTest::RedisServer.start
    pool = NeverBlock::ConnectionPool.new(size: 2) { Redis.new(path: redis.path) }
    store = ActiveSupport::Cache::RedisCacheStore.new(pool: false, redis: pool)
    in_run do
      assert_equal true, store.write("key", "value")
      assert_equal ["value", {"key" => "value"}], [store.read("key"), store.read_multi("key")]
    end
    assert_equal 1, pool.idle
  ensure
    pool&.close
    redis&.stop
  end

  def need(*gems)
    missing = gems.find { |name| !Gem.loaded_specs.key?(name) }
    skip "#{missing} is not among the gems here" if missing
  end
end
