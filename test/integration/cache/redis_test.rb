# frozen_string_literal: true

# slow: starts Redis, and waits for timeouts

require "test_helper"
require "support/runs"
require "support/cached_app"
require "support/redis"

# Responses in Redis, by Rails' store, and a Redis that ends or hangs: then the app is asked more often. No client gets an
# error, and no request waits longer than for a timeout of Redis' client or two.
class CacheRedisTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  begin
    require "active_support"
    require "active_support/cache"
    require "redis"
  rescue LoadError
    nil # left out on preview Rubies
  end

  FRESH = {"cache-control" => "max-age=60"}.freeze
  CLIENTS = 40
  SIGNALS = %i[KILL STOP].freeze

  def setup
    skip "activesupport or redis is not among the gems here" unless defined?(ActiveSupport::Cache) && defined?(Redis)
    reason = NeverBlockTest::RedisServer.missing and skip reason
  end

  def teardown
    @redis&.signal(:CONT)
  rescue Errno::ESRCH
    nil # it was killed
  ensure
    @redis&.stop
  end

  def test_responses_are_shared_by_processes
    use_redis
    app = proc { |_| shown }
    cached(store: @store, &app)
    assert_equal ["call 1 for all"] * 2, Array.new(2) { |n| settled { ask(n) } }
    cached(store: @store, &app)
    assert_equal "call 1 for all", ask(0)
    assert_equal 0, @calls
  end

  SIGNALS.each do |signal|
    define_method(:"test_#{signal}_during_a_fetch") do
      use_redis
      cached(store: @store) { |_| shown.tap { wait_here } }
      bodies = in_run do |scope|
        clients = Array.new(CLIENTS) { |n| scope.spawn { ask(n) } }
        pass_until("the wait of each") { @cache.stats[:waiting] == CLIENTS }
        @redis.signal(signal)
        go_on
        clients.map(&:value)
      end
      assert_equal ["call 1 for all"] * CLIENTS, bodies
      assert_equal 1, @calls
    end

    define_method(:"test_#{signal}_during_hits") do
      use_redis
      cached(store: @store) { |env| shown(env["HTTP_USER_AGENT"]) }
      settled { ask(0) }
      bodies = in_run do
        before = NeverBlock.concurrently(0...CLIENTS, limit: CLIENTS) { |n| ask(n) }
        @redis.signal(signal)
        before + Array.new(3) { NeverBlock.concurrently(0...CLIENTS, limit: CLIENTS) { |n| ask(n) } }.flatten
      end
      assert_equal ["call 1 for all"] * CLIENTS, bodies.first(CLIENTS), "these were hits"
      bodies.each { |body| assert_match(/\Acall \d+ for all\z/, body) }
      assert_operator @calls, :<=, bodies.size
      refute_equal "call 1 for all", bodies.last
    end
  end

  # What was purged while Redis did not respond is not served when it does again.
  def test_a_purge_that_redis_does_not_get
    use_redis
    cached(store: @store) { |_| shown }
    settled { ask(0) }
    @redis.signal(:STOP)
    assert_equal 0, @cache.purge("http://example.org/a")
    assert_equal "call 2 for all", ask(0)
    @redis.signal(:CONT)
    refute_equal "call 1 for all", ask(0)
    assert_operator @cache.stats[:errors], :>=, 1
  end

  def test_redis_comes_back
    use_redis
    pause = 0.01
    patience = NeverBlock::Cache::Patience.new(pause:)
    cached(store: NeverBlock::Cache::ActiveSupportStore.new(@store, patience:)) { |_| shown }
    @redis.signal(:STOP)
    ask(0)
    @redis.signal(:CONT)
    wait_until("a hit") { settled { ask(0) } == ask(0) }
    assert_match(/hit/, get("/a").headers["cache-status"])
  end

  private

  def use_redis
    @redis = NeverBlockTest::RedisServer.start
    @redis.pid # while it responds
    @store = ActiveSupport::Cache::RedisCacheStore.new(url: "unix://#{@redis.path}", pool: {size: 10, timeout: 1})
    @store.logger = nil
  end

  def shown(user = nil) = ok("call #{@calls} for #{user || "all"}", **FRESH)

  def ask(number) = get("/a", "HTTP_USER_AGENT" => "client #{number}").body

  # The response is stored.
  def settled
    yield.tap { pass_until("the end of the fetch") { @cache.stats[:fetching].zero? } }
  end
end
