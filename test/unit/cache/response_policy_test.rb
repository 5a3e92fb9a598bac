# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# Which responses may be given to other clients: RFC 9111 §3.
class CacheResponsePolicyTest < Minitest::Test
  ResponsePolicy = NeverBlock::Cache::ResponsePolicy
  Conditional = NeverBlock::Cache::Conditional
  HttpDate = NeverBlock::Cache::HttpDate
  NOW = 1_800_000_000
  ENV_ = {"REQUEST_METHOD" => "GET", "rack.url_scheme" => "https", "HTTP_HOST" => "example.org", "SCRIPT_NAME" => "", "PATH_INFO" => "/a"}.freeze
  FRESH = {"cache-control" => "max-age=60", "content-type" => "text/html"}.freeze

  def decide(headers = {}, status: 200, env: {}, base: FRESH, **)
    ResponsePolicy.call(status:, headers: {**base, **headers}, request_env: {**ENV_, **env}, responded_at: NOW, **)
  end

  def control(value, **) = decide({"cache-control" => value}, **)

  def test_a_fresh_response_may_be_shared
    assert_nil decide
    assert_nil ResponsePolicy.call(status: 200, headers: FRESH, request_env: ENV_)
  end

  def test_statuses
    (100..599).each do |status|
      stored = [200, 203, 204, 300, 301, 302, 303, 307, 308].include?(status)
      assert_equal [(:status unless stored)], [control("public, max-age=60", status:)], status
    end
  end

  def test_methods
    %w[HEAD POST PUT OPTIONS get].each { |method| assert_equal :method, decide(env: {"REQUEST_METHOD" => method}) }
  end

  # Cache-Control => reason.
  DIRECTIVES = {
    "max-age=60" => nil, "s-maxage=60" => nil, "public, max-age=60" => nil, "max-age=60, must-revalidate" => nil, "max-age=60, unknown" => nil,
    "no-store" => :no_store, "max-age=60, No-Store" => :no_store, "no-store, public, max-age=60" => :no_store,
    "max-age=60; private" => :no_store, "max-age=60, private=\"a" => :no_store, "public, max-age=60, \xff" => :no_store, "a" * 9_000 => :no_store,
    "private" => :private, "private, max-age=60" => :private, "PRIVATE, max-age=60" => :private, 'private="set-cookie", max-age=60' => :private,
    "private=x, public, max-age=60" => :private, ["public, max-age=60", "private"] => :private,
    "no-store, must-understand, max-age=60" => nil, "must-understand, max-age=60" => nil, "no-store, must-understand=1, max-age=60" => :no_store,
    "no-store, must-understand, private, max-age=60" => :private,
    nil => :no_freshness, "" => :no_freshness, "public" => :no_freshness, "must-revalidate" => :no_freshness, "immutable" => :no_freshness,
    "max-age=0" => :no_freshness, "max-age=x" => :no_freshness, "max-age=-5" => :no_freshness, "s-maxage=0, max-age=60" => :no_freshness,
    "no-cache" => :no_freshness, "no-cache, max-age=60" => :no_freshness, 'no-cache="x", max-age=60' => :no_freshness,
    "max-age=0, stale-while-revalidate=30" => nil, "max-age=0, stale-if-error=30" => nil, "s-maxage=0, stale-while-revalidate=30" => :no_freshness,
    "max-age=0, must-revalidate, stale-while-revalidate=30" => :no_freshness
  }.freeze

  def test_directives
    DIRECTIVES.each { |value, reason| assert_equal [reason], [control(value)], value.inspect[0, 60] }
  end

  # What is not fresh can be stored to be validated.
  def test_validators
    ["max-age=0", "no-cache", "no-cache, max-age=60", "max-age=0, must-revalidate"].each do |value|
      assert_nil decide({"cache-control" => value, "etag" => '"a"'}), value
      assert_nil decide({"cache-control" => value, "last-modified" => HttpDate.format(NOW)}), value
      assert_equal :no_freshness, decide({"cache-control" => value, "etag" => "a", "last-modified" => "x"}), value
    end
    [nil, "public"].each { |value| assert_equal :no_freshness, decide({"cache-control" => value, "etag" => '"a"'}) }
  end

  def test_expires
    {NOW + 60 => nil, NOW => :no_freshness, NOW - 60 => :no_freshness}.each do |time, reason|
      assert_equal [reason], [decide({"expires" => HttpDate.format(time)}, base: {})]
    end
    assert_equal :no_freshness, decide({"expires" => "0"}, base: {})
    assert_equal :no_freshness, decide({"expires" => HttpDate.format(NOW + 60), "cache-control" => "max-age=0"})
  end

  def test_a_response_that_is_stale_when_it_comes
    assert_equal :no_freshness, decide({"age" => "7200"})
    assert_equal :no_freshness, decide({"date" => HttpDate.format(NOW - 7200)})
    assert_nil decide({"age" => "7200", "etag" => '"a"'})
  end

  def test_targeted_fields
    cdn = {targeted: ["cdn-cache-control"]}
    assert_nil decide({"cache-control" => "no-store", "cdn-cache-control" => "max-age=60"}, **cdn)
    assert_nil decide({"cache-control" => "private", "cdn-cache-control" => "max-age=60"}, **cdn)
    assert_equal :private, decide({"cdn-cache-control" => "private"}, **cdn)
    assert_equal :no_store, decide({"cdn-cache-control" => "no-store"}, **cdn)
    assert_equal :no_freshness, decide({"cdn-cache-control" => "none", "expires" => HttpDate.format(NOW + 60)}, **cdn)
    assert_equal :no_store, decide({"cdn-cache-control" => "Private; x"}, **cdn)
    assert_equal :no_store, decide({"cache-control" => "no-store", "cdn-cache-control" => "max-age=60, &"}, **cdn)
    assert_equal :no_store, decide({"cache-control" => "no-store", "cdn-cache-control" => "max-age=60"})
  end

  def test_cookies_are_for_one_client
    ["a=b", ["a=b", "c=d"], ""].each do |value|
      assert_equal :set_cookie, decide({"set-cookie" => value, "cache-control" => "public, max-age=60"}), value.inspect
      assert_equal :set_cookie, decide({"set-cookie2" => value})
    end
    assert_nil decide({"set-cookie" => nil})
    assert_nil decide({"set-cookie" => []})
  end

  def test_bodies_that_are_not_the_response
    {
      "content-range" => :content_range, "transfer-encoding" => :transfer_encoding, "x-sendfile" => :sendfile, "x-accel-redirect" => :sendfile,
      "x-lighttpd-send-file" => :sendfile, "x-lighttpd-send2file" => :sendfile, "x-lighttpd-send-tempfile" => :sendfile, "rack.hijack" => :hijack
    }.each { |name, reason| assert_equal reason, decide({name => "x"}), name }
    assert_equal :hijack, decide({"rack.hijack" => ->(_io) {}})
    assert_equal :content_range, decide({"content-type" => "Multipart/byteranges; boundary=x"})
  end

  def test_headers_that_another_reader_may_see_in_another_way
    [
      {"Set-Cookie" => "a=b"}, {"Cache-Control" => "private"}, {"X-A" => "1"}, {"x a" => "1"}, {"x:a" => "1"}, {"" => "1"}, {"xé" => "1"}, {"x\n" => "1"},
      {cache_control: "private"}, {"x-a" => "1\r\nset-cookie: a=b"}, {"x-a" => "1\n2"}, {"x-a" => "\0"}, {"x-a" => 5}, {"x-a" => [1]}, {"x-a" => {a: 1}},
      {"x-a" => ["1", "2\n"]}, {"content-length" => "5, 5"}, {"content-length" => "-1"}, {"content-length" => "x"}, {"content-length" => ""},
      {"content-length" => "9" * 40}, {"content-length" => %w[5 6]}
    ].each { |headers| assert_equal :malformed, decide(headers), headers }
    [{"x-a" => "\t é"}, {"x-a" => "\xff"}, {"x-a" => ["1", "2"]}, {"x-a" => ""}, {"content-length" => "5"}].each { |headers| assert_nil decide(headers), headers }
  end

  def test_the_headers_are_bounded
    assert_equal :headers_too_large, decide({"x-a" => "a" * 20_000})
    assert_equal :headers_too_large, decide({"x-a" => ["a" * 1_000] * 20})
    assert_equal :headers_too_large, decide((1..200).to_h { |number| ["x-#{number}", "1"] })
    assert_equal :headers_too_large, decide({"x-a" => "a" * 200}, max_header_bytes: 100)
    assert_nil decide({"x-a" => "a" * 10_000})
  end

  def test_connection_must_not_list_what_decides
    %w[Cache-Control vary set-cookie date].each { |name| assert_equal :connection, decide({"connection" => "close, #{name}"}), name }
    assert_nil decide({"connection" => "close, x-hop"})
  end

  def test_requests_that_forbid_to_store
    assert_equal :request_no_store, decide(env: {"HTTP_CACHE_CONTROL" => "no-store"})
    assert_equal :request_no_store, decide(env: {"HTTP_CACHE_CONTROL" => "a;b"})
    assert_nil decide(env: {"HTTP_CACHE_CONTROL" => "no-cache"})
  end

  # RFC 9111 §3.5.
  def test_authorization
    env = {"HTTP_AUTHORIZATION" => "Basic x"}
    {
      "max-age=60" => :authorization, "public, max-age=60" => nil, "max-age=60, must-revalidate" => nil, "s-maxage=60" => nil, "max-age=60, s-maxage=60" => nil,
      "max-age=60, proxy-revalidate" => :authorization, "max-age=60, public=no" => :authorization, "max-age=60, must-revalidate=no" => :authorization,
      "public, private, max-age=60" => :private
    }.each { |value, reason| assert_equal [reason], [control(value, env:)], value }
    assert_equal :authorization, decide({"cache-control" => "public, max-age=60", "authentication-info" => "nextnonce=x"})
  end

  def test_other_credentials_need_public
    {
      {"HTTP_COOKIE" => "a=b"} => :cookie, {"HTTP_COOKIE" => "a", "HTTP_AUTHORIZATION" => "x"} => :cookie, {"SSL_CLIENT_CERT" => "x"} => :client_certificate,
      {"HTTP_X_API_KEY" => "k"} => :credential_header, {"HTTP_X_TENANT" => "t"} => :credential_header, {"REMOTE_USER" => "ann"} => :credential_header
    }.each do |env, reason|
      ["max-age=60", "s-maxage=60", "max-age=60, must-revalidate", "max-age=60, public=1"].each do |value|
        assert_equal reason, control(value, env:, credential_entries: ["HTTP_X_TENANT"]), [env, value].inspect
      end
      assert_nil control("public, max-age=60", env:, credential_entries: ["HTTP_X_TENANT"]), env
    end
  end

  def test_vary
    {
      nil => nil, "" => nil, "Accept" => nil, "Accept-Encoding, User-Agent" => nil, "*" => :vary_any, "Accept, *" => :vary_any, ["a", "*"] => :vary_any,
      "a b" => :vary_any, (1..17).map { |number| "n#{number}" }.join(",") => :vary_any, "Cookie" => :vary_credentials, "accept, Authorization" => :vary_credentials,
      "X-Api-Key" => :vary_credentials, "X-Tenant" => :vary_credentials, "X-SSL-Client-Cert" => :vary_credentials
    }.each { |field, reason| assert_equal [reason], [decide({"vary" => field}, credential_entries: ["HTTP_X_TENANT"])], field.inspect }
    assert_nil decide({"vary" => "X-Tenant"})
  end

  # They may read what is stored, and don't fill it.
  def test_responses_to_unusual_urls_are_not_stored
    [{"PATH_INFO" => "/%61"}, {"PATH_INFO" => "/%2f"}, {"PATH_INFO" => "/../a"}, {"HTTP_HOST" => "EXAMPLE.org"}, {"HTTP_HOST" => "example.org."},
      {"HTTP_HOST" => "example.org:443"}, {"HTTP_HOST" => ""}].each { |env| assert_equal :unusual_url, decide(env:), env }
    [{"PATH_INFO" => "/%2F"}, {"PATH_INFO" => ""}, {"HTTP_HOST" => "example.org:8443"}].each { |env| assert_nil decide(env:), env }
  end

  def test_hostile_headers_do_not_raise
    random = Random.new(Minitest.seed)
    names = %w[cache-control expires date age vary etag last-modified connection content-length content-type cdn-cache-control set-cookie]
    2_000.times do
      headers = names.sample(random.rand(1..6), random:).to_h do |name|
        bytes = random.bytes(random.rand(0..30))
        [name, [bytes, bytes.dup.force_encoding("UTF-8"), bytes.tr("\x00-\x1f\x7f", " "), "max-age=60, #{bytes.tr("\x00-\x1f\x7f", "a")}"].sample(random:)]
      end
      result = decide(headers, targeted: ["cdn-cache-control"])
      assert(result.nil? || result.is_a?(Symbol))
    end
  end

  def validated(not_modified, stored = {**FRESH, "etag" => '"a"'}, **)
    merged = Conditional.merge(stored, not_modified)
    ResponsePolicy.of_validation(status: 200, headers: merged, not_modified:, request_env: ENV_, responded_at: NOW, **)
  end

  def test_a_304_can_end_the_sharing
    assert_nil validated({"etag" => '"a"'})
    {
      {"cache-control" => "private, max-age=60"} => :private, {"cache-control" => "no-store"} => :no_store, {"set-cookie" => "a=b"} => :set_cookie,
      {"vary" => "*"} => :vary_any, {"vary" => "Cookie"} => :vary_credentials, {"x-a" => "1\n2"} => :malformed, {"Set-Cookie" => "a"} => :malformed,
      {"cache-control" => ""} => :no_freshness, {"connection" => "vary"} => :connection, {"x-sendfile" => "/a"} => :sendfile,
      {"x-a" => "a" * 20_000} => :headers_too_large, {"authentication-info" => "x"} => :authorization
    }.each { |not_modified, reason| assert_equal [reason], [validated(not_modified)], not_modified.inspect[0, 60] }
  end
end
