# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/cached_app"

# What RFC 9111 permits and the cache does only if its options say so: `pass_headers:`, `heuristic_ttl:`, `statuses:`.
class CachePermittedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  FRESH = {"cache-control" => "max-age=60"}.freeze
  CONFIGURATION = NeverBlock::ConfigurationError

  def test_a_header_that_is_passed_does_not_belong_to_the_key
    cached(pass_headers: ["X-Number"]) { |env| ok("call #{@calls}: #{env["HTTP_X_NUMBER"]} #{env["HTTP_X_OTHER"]}", **FRESH) }
    assert_equal "call 1: 1 ", get("/", "HTTP_X_NUMBER" => "1").body
    assert_equal "call 1: 1 ", get("/", "HTTP_X_NUMBER" => "2").body
    assert_equal "call 2: 3 a", get("/", "HTTP_X_NUMBER" => "3", "HTTP_X_OTHER" => "a").body
  end

  def test_unless_a_response_varies_on_it
    cached(pass_headers: ["*"]) { |env| ok("call #{@calls}: #{env["HTTP_X_THEME"]}", "vary" => "X-Theme", **FRESH) }
    bodies = %w[dark light dark light].map { |theme| get("/", "HTTP_X_THEME" => theme, "HTTP_X_NUMBER" => "#{@calls} x").body }
    assert_equal ["call 1: dark", "call 2: light"] * 2, bodies
    assert_equal 2, @calls
  end

  # Also of those that wait for one response.
  def test_no_client_gets_the_response_for_another_header
    cached(pass_headers: ["*"]) do |env|
      wait_here
      ok(env["HTTP_X_THEME"], "vary" => "X-Theme", **FRESH)
    end
    themes = Array.new(8) { |n| "theme #{n % 2}" }
    assert_equal themes, together(8) { |n| get("/", "HTTP_X_THEME" => themes[n]).body }
    assert_equal 2, @calls
  end

  def test_all_headers_are_the_unusual_ones
    seen = []
    cached(pass_headers: ["*"]) do |env|
      seen << env
      ok("for all", **FRESH)
    end
    get("/", "HTTP_X_REAL_IP" => "192.0.2.1", "HTTP_IF_NONE_MATCH" => '"1"', "HTTP_USER_AGENT" => "a", "HTTP_X_NUMBER" => "1")
    assert_equal %w[HTTP_HOST HTTP_X_NUMBER], seen.first.keys.grep(/\AHTTP_/).sort
    get("/", "HTTP_COOKIE" => "a=b")
    assert_equal 2, @calls
  end

  def test_what_can_not_be_passed
    {
      {pass_headers: ["cookie"]} => /"cookie".*one client's/, {pass_headers: ["Authorization"]} => /one client's/,
      {pass_headers: ["x-tenant"], credential_headers: ["X-Tenant"]} => /one client's/, {pass_headers: ["if-none-match"]} => /own business/,
      {pass_headers: ["x-original-url"]} => /own business/, {pass_headers: ["x-forwarded-host"]} => /own business/,
      {pass_headers: ["x-a"], ignore_headers: ["X-A"]} => /ignore_headers/, {pass_headers: ["*"], same_url: true} => /same_url/,
      {pass_headers: ["*"], credentials: :ignore} => /credentials: :ignore/, {pass_headers: "*"} => /not a list of Strings/
    }.each do |options, message|
      assert_match message, assert_raises(CONFIGURATION, options.inspect) { NeverBlock::Cache.new(->(_) {}, **options) }.message
    end
  end

  def test_a_lifetime_that_is_guessed
    changed = {"last-modified" => "Sat, 01 Jan 2022 00:00:00 GMT"}
    cached { |_| ok("call #{@calls}", **changed) }
    assert_equal ["call 1", "call 2"], Array.new(2) { get("/").body }
    cached(heuristic_ttl: 60) { |_| ok("call #{@calls}", **changed) }
    assert_equal ["call 1", "call 1"], Array.new(2) { get("/").body }
    cached(heuristic_ttl: 60) { |_| ok("call #{@calls}", **changed, "cache-control" => "private") }
    assert_equal ["call 1", "call 2"], Array.new(2) { get("/").body }
  end

  def test_errors_that_are_stored
    cached(statuses: [404]) { |env| ok("call #{@calls}", status: env["PATH_INFO"][1..].to_i, **FRESH) }
    assert_equal ["call 1", "call 1"], Array.new(2) { get("/404").body }
    assert_equal ["call 2", "call 3"], Array.new(2) { get("/410").body }
    cached(statuses: [404]) { |_| ok("call #{@calls}", status: 404) }
    assert_equal ["call 1", "call 2"], Array.new(2) { get("/").body }, "without a lifetime"
  end

  def test_a_status_that_must_be_understood
    cached(statuses: [404, 499]) { |env| ok("call #{@calls}", status: env["PATH_INFO"][1..].to_i, **{"cache-control" => "max-age=60, must-understand"}) }
    assert_equal ["call 1", "call 1"], Array.new(2) { get("/404").body }
    assert_equal ["call 2", "call 3"], Array.new(2) { get("/499").body }
  end

  def test_statuses_that_can_not_be_stored
    [206, 304, [206], [304], ["404"], [600]].each do |list|
      assert_match(/statuses: /, assert_raises(CONFIGURATION) { NeverBlock::Cache.new(->(_) {}, statuses: list) }.message)
    end
  end

  # RFC 9111 §4.3.3: it is the response to a request with the stored validators.
  def test_a_304_without_a_validator
    cached { |env| env["HTTP_IF_NONE_MATCH"] ? [304, {"cache-control" => "max-age=60"}, []] : ok("call #{@calls}", "cache-control" => "max-age=60", "age" => "61", "etag" => '"1"') }
    assert_equal ["call 1"] * 3, Array.new(3) { get("/").body }
    assert_equal 2, @calls
  end
end
