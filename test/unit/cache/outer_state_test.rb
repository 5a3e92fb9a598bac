# frozen_string_literal: true

require "test_helper"
require "support/cached_app"
require "support/runs"

# State that middleware outside of the cache gives to the fiber of a request.
class CacheOuterStateTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  FRESH = {"cache-control" => "public, max-age=60"}.freeze

  def teardown
    Thread.current[:tenant] = nil
  end

  def test_a_fiber_local_of_outer_middleware_reaches_the_app
    cached(details: true) { |_| ok("of #{Thread.current[:tenant].inspect}", **FRESH) }
    in_run do
      2.times do
        response = with("a") { get("/a") }
        assert_equal "of \"a\"", response.body
        assert_includes response.headers["cache-status"], "state tenant"
      end
    end
    assert_equal [2, 0], [@calls, @cache.stats[:entries]]
    in_run { 2.times { assert_equal "of nil", get("/a").body } }
    assert_equal [3, 1], [@calls, @cache.stats[:entries]]
  end

  def test_requests_with_a_state_do_not_wait_for_others
    cached { |_|
      Thread.current[:tenant] || wait_here
      ok("of #{Thread.current[:tenant].inspect}", **FRESH)
    }
    @waiting = Thread::Queue.new
    bodies = in_run do |scope|
      plain = Array.new(2) { scope.spawn { get("/a").body } }
      plain.each { |client| parked(client) }
      others = Array.new(2) { |n| scope.spawn { with("t#{n}") { get("/a").body } } }.map(&:value)
      go_on
      [*others, *plain.map(&:value)]
    end
    assert_equal ["of \"t0\"", "of \"t1\"", "of nil", "of nil"], bodies
    assert_equal 3, @calls
  end

  def test_a_state_that_no_response_depends_on
    cached(allow_state: ["tenant"]) { |_| ok("of #{Thread.current[:tenant].inspect}", **FRESH) }
    in_run { 2.times { assert_equal "of nil", with("a") { get("/a").body } } }
    assert_equal 1, @calls
  end

  def test_a_refresh_in_the_background_is_not_made_with_a_state
    cached { |_| ok("call #{@calls}", "cache-control" => "max-age=0, stale-while-revalidate=60", "etag" => "\"a\"") }
    in_run do
      get("/a")
      3.times { assert_equal "call 1", with("a") { get("/a") }.body }
    end
    assert_equal 1, @calls
  end

  def test_the_explanation_names_the_state
    cached { |_| ok("x", **FRESH) }
    in_run { assert_includes with("a") { @cache.explain(env_of("GET", "/a")).to_s }, "outer middleware has set tenant" }
  end

  private

  def with(tenant)
    Thread.current[:tenant] = tenant
    yield
  ensure
    Thread.current[:tenant] = nil
  end
end
