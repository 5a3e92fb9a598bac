# frozen_string_literal: true

require "test_helper"
require "support/cached_app"
require "support/runs"

# What the cache counts, and tells NeverBlock.stats: one outcome for each request.
class CacheOutcomesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  FRESH = {"cache-control" => "max-age=60"}.freeze
  # Stale when it is stored, so that no test waits.
  OLD = {"age" => "60", "etag" => '"1"'}.freeze

  def test_a_miss_and_hits
    cached { |_| ok("x", **FRESH) }
    get("/a")
    assert_equal({miss: 1}, became)
    get("/a")
    request("HEAD", "/a")
    get("/a", "HTTP_RANGE" => "bytes=0-0")
    assert_equal({miss: 1, hit: 3}, became)
  end

  def test_requests_that_wait_are_collapsed
    cached do |_|
      wait_here
      ok("x", **FRESH)
    end
    together(5) { get("/a") }
    assert_equal({miss: 1, collapsed: 4}, became)
  end

  def test_a_response_for_one_client_is_a_miss_for_the_first_and_passes_for_the_others
    cached do |_|
      wait_here
      ok("x", "cache-control" => "private")
    end
    together(4) { get("/a") }
    get("/a")
    assert_equal({miss: 1, pass: 4}, became)
  end

  def test_what_is_not_looked_up_bypasses
    cached { |_| ok("x", **FRESH) }
    request("POST", "/a")
    get("/a", "HTTP_COOKIE" => "a=1")
    get("/a", "a user" => "ann")
    assert_equal({bypass: 3}, became)
  end

  def test_a_stored_response_that_is_validated
    cached { |env| env["HTTP_IF_NONE_MATCH"] ? [304, {"etag" => '"1"', "cache-control" => "max-age=0"}, []] : ok("x", **OLD, "cache-control" => "max-age=1") }
    2.times { assert_equal "x", get("/a").body }
    assert_equal({miss: 1, revalidated: 1}, became)
  end

  def test_a_stored_response_that_is_replaced_is_a_miss
    cached { |_| ok("x", **OLD, "cache-control" => "max-age=1") }
    2.times { get("/a") }
    assert_equal({miss: 2}, became)
  end

  def test_stale_responses
    cached { |_| ok("x", **OLD, "cache-control" => "max-age=1, stale-while-revalidate=600") }
    2.times { get("/a") }
    wait_until("the fetch in the background") { @calls == 2 && @cache.stats[:fetching].zero? }
    assert_equal({miss: 1, stale: 1}, became, "a fetch in the background is no request")
    cached { |_| ok("x", **OLD, "cache-control" => "max-age=1") }
    get("/a")
    get("/a", "HTTP_CACHE_CONTROL" => "max-stale=600")
    assert_equal({miss: 1, stale: 1}, became)
  end

  def test_stale_responses_in_place_of_errors
    cached do |_|
      next ok("x", **OLD, "cache-control" => "max-age=1, stale-if-error=600") if @calls == 1
      wait_here
      (@calls == 2) ? ok("ill", status: 503) : raise("ill")
    end
    get("/a")
    together(3) { assert_equal "x", get("/a", "rack.errors" => StringIO.new).body }
    assert_equal({miss: 1, stale: 3}, became)
    get("/a", "rack.errors" => StringIO.new)
    assert_equal 4, became[:stale]
  end

  def test_errors
    cached { |_| raise "ill" }
    2.times { assert_raises(RuntimeError) { get("/a") } }
    assert_equal({failed: 2}, became)
  end

  def test_a_request_for_stored_responses_alone
    cached { |_| ok("x", **FRESH) }
    assert_equal 504, get("/a", "HTTP_CACHE_CONTROL" => "only-if-cached").status
    assert_equal({miss: 1}, became)
  end

  def test_the_env_has_it
    cached { |_| ok("x", **FRESH) }
    envs = Array.new(2) { env_of("GET", "/a") } << env_of("POST", "/a")
    envs.each { |env| @cache.call(env).last.each { |_| nil } }
    assert_equal %i[miss hit bypass], envs.map { |env| env["neverblock.cache"] }
  end

  # Outside of a loop the fetch is in another thread. Nothing may be added to a Hash while that one reads it.
  def test_the_env_has_it_before_a_fetch_in_the_background_begins
    cached { |_| ok("x", **OLD, "cache-control" => "max-age=1, stale-while-revalidate=600") }
    get("/a")
    env, found = env_of("GET", "/a"), []
    @cache.store.define_singleton_method(:generation) { |key| (found << env["neverblock.cache"]) && super(key) } # called to begin one
    @cache.call(env).last.each { |_| nil }
    assert_equal [:stale], found
    wait_until("the fetch") { @calls == 2 && @cache.stats[:fetching].zero? }
  end

  # The outer one has no part in it.
  def test_a_cache_further_inside_has_the_word_if_the_outer_one_passes
    cached { |_| ok("x", **FRESH) }
    outer = NeverBlock::Cache.new(@cache, credential_headers: ["x-key"])
    envs = Array.new(2) { env_of("GET", "/a", "HTTP_X_KEY" => "1") }
    envs.each { |env| outer.call(env).last.each { |_| nil } }
    assert_equal %i[miss hit], envs.map { |env| env["neverblock.cache"] }
    assert_equal 2, outer.stats[:requests][:bypass]
  end

  def test_caches_are_told_by_their_names
    caches = ["pages", "pages", nil].map { |name| cached(**{name:}.compact) { |_| ok("x", **FRESH) } && @cache }
    first, second, plain = caches.map(&:name)
    assert_equal [/\Apages( \(\d+\))?\z/, /\Apages \(\d+\)\z/, /\Acache( \(\d+\))?\z/].zip([first, second, plain]).map { |form, name| name[form] }, [first, second, plain]
    assert_equal 3, [first, second, plain].uniq.size
    get("/a")
    told = NeverBlock.stats[:caches]
    assert_equal [1, 0], told.values_at(plain, first).map { |stats| stats[:requests][:miss] }
    assert_equal 1, told[plain][:entries]
  end

  def test_a_name_is_a_text
    assert_match(/name: 5 is not a name/, assert_raises(NeverBlock::ConfigurationError) { cached(name: 5) }.message)
  end

  def test_options_are_checked_without_a_cache
    count = NeverBlock.stats[:caches].to_h.size
    assert_nil NeverBlock::Cache.check(wait: 5)
    assert_match(/wait: -1 is not/, assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache.check(wait: -1) }.message)
    assert_operator NeverBlock.stats[:caches].to_h.size, :<=, count
  end

  private

  # @return [Hash{Symbol=>Integer}] what has been counted
  def became = @cache.stats[:requests].reject { |_, count| count.zero? }
end
