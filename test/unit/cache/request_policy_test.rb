# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# Which requests the cache may answer.
class CacheRequestPolicyTest < Minitest::Test
  RequestPolicy = NeverBlock::Cache::RequestPolicy
  RequestOptions = NeverBlock::Cache::RequestOptions
  BASE = {
    "REQUEST_METHOD" => "GET", "rack.url_scheme" => "https", "HTTP_HOST" => "example.org", "SCRIPT_NAME" => "", "PATH_INFO" => "/a",
    "QUERY_STRING" => "b=1", "SERVER_NAME" => "example.org", "SERVER_PORT" => "443"
  }.freeze

  def decide(more = {}, **) = RequestPolicy.call({**BASE, **more}, RequestOptions.new(**))

  def test_a_plain_request_is_looked_up
    request = decide
    assert_equal [:lookup, true, false, nil], [request.action, request.lookup?, request.bypass?, request.reason]
    assert_equal "https://example.org/a?b=1", request.key
    assert_predicate RequestPolicy.call(BASE), :lookup?
  end

  LOOKED_UP = [
    {"REQUEST_METHOD" => "HEAD"}, {"CONTENT_LENGTH" => "0"}, {"CONTENT_LENGTH" => ""}, {"CONTENT_LENGTH" => nil}, {"HTTP_CONNECTION" => "keep-alive"},
    {"HTTP_CONNECTION" => "Keep-Alive, TE"}, {"HTTP_CONNECTION" => "close"}, {"HTTP_CONNECTION" => ""}, {"HTTP_CACHE_CONTROL" => "no-cache"},
    {"HTTP_CACHE_CONTROL" => "max-age=0"}, {"HTTP_PRAGMA" => "no-cache"}, {"HTTP_RANGE" => "bytes=0-1"}, {"HTTP_IF_NONE_MATCH" => "*"},
    {"HTTP_X_FORWARDED_FOR" => "1.2.3.4"}, {"HTTP_X_FORWARDED_PROTO" => "https"}, {"HTTP_X_FORWARDED_HOST" => "example.org"},
    {"HTTP_USER_AGENT" => "x"}, {"HTTP_UPGRADE_INSECURE_REQUESTS" => "1"}, {"SSL_CLIENT_VERIFY" => "NONE"}, {"QUERY_STRING" => "_method=delete"}
  ].freeze

  def test_usual_requests_are_looked_up
    LOOKED_UP.each { |more| assert_nil decide(more).reason, more }
  end

  BYPASSES = {
    method: [
      {"REQUEST_METHOD" => "POST"}, {"REQUEST_METHOD" => "PUT"}, {"REQUEST_METHOD" => "DELETE"}, {"REQUEST_METHOD" => "OPTIONS"},
      {"REQUEST_METHOD" => "TRACE"}, {"REQUEST_METHOD" => "CONNECT"}, {"REQUEST_METHOD" => "PURGE"}, {"REQUEST_METHOD" => "get"},
      {"REQUEST_METHOD" => "GET "}, {"REQUEST_METHOD" => nil}
    ],
    body: [
      {"CONTENT_LENGTH" => "1"}, {"CONTENT_LENGTH" => "00"}, {"CONTENT_LENGTH" => "-1"}, {"CONTENT_LENGTH" => "x"}, {"CONTENT_LENGTH" => "0, 5"},
      {"HTTP_TRANSFER_ENCODING" => "chunked"}, {"HTTP_TRANSFER_ENCODING" => "identity"}, {"HTTP_TRANSFER_ENCODING" => ""},
      {"REQUEST_METHOD" => "HEAD", "CONTENT_LENGTH" => "1"}
    ],
    upgrade: [{"HTTP_UPGRADE" => "websocket"}, {"HTTP_UPGRADE" => "h2c"}, {"HTTP_SEC_WEBSOCKET_KEY" => "x"}],
    expect: [{"HTTP_EXPECT" => "100-continue"}],
    override: %w[
      HTTP_X_HTTP_METHOD_OVERRIDE HTTP_X_HTTP_METHOD HTTP_X_METHOD_OVERRIDE HTTP__METHOD HTTP_X_ORIGINAL_URL HTTP_X_REWRITE_URL HTTP_X_HOST
      HTTP_X_FORWARDED_PREFIX HTTP_X_ORIGINAL_HOST HTTP_X_HTTP_HOST_OVERRIDE
    ].map { |name| {name => "x"} },
    connection: [{"HTTP_CONNECTION" => "close, X-Auth-User"}, {"HTTP_CONNECTION" => "Cookie"}, {"HTTP_CONNECTION" => "upgrade"}, {"HTTP_CONNECTION" => "\xff"}],
    no_store: [
      {"HTTP_CACHE_CONTROL" => "no-store"}, {"HTTP_CACHE_CONTROL" => "max-age=0, No-Store"}, {"HTTP_CACHE_CONTROL" => "a;b"},
      {"HTTP_CACHE_CONTROL" => "a" * 10_000}, {"HTTP_CACHE_CONTROL" => "\xff"}
    ],
    authorization: [{"HTTP_AUTHORIZATION" => "Basic x"}, {"HTTP_AUTHORIZATION" => "x", "HTTP_COOKIE" => "a"}],
    cookie: [{"HTTP_COOKIE" => "a=b"}, {"HTTP_COOKIE" => "a=b", "REQUEST_METHOD" => "HEAD"}],
    client_certificate: [{"SSL_CLIENT_CERT" => "x"}, {"HTTP_X_FORWARDED_CLIENT_CERT" => "x"}, {"rack.peer_cert" => Object.new}],
    credential_header: [{"HTTP_X_TENANT" => "t"}, {"REMOTE_USER" => "ann"}],
    forwarded: [
      {"HTTP_X_FORWARDED_HOST" => "evil.org"}, {"HTTP_X_FORWARDED_PROTO" => "http"}, {"HTTP_X_FORWARDED_SCHEME" => "http"},
      {"HTTP_X_FORWARDED_PORT" => "8080"}, {"HTTP_FORWARDED" => "host=evil.org"}, {"HTTP_X_FORWARDED_HOST" => "example.org, evil.org"}
    ],
    key: [{"PATH_INFO" => "/../a"}, {"HTTP_HOST" => "a b"}, {"HTTP_HOST" => ""}, {"QUERY_STRING" => "a b"}, {"rack.url_scheme" => "ftp"}]
  }.freeze

  def test_requests_that_bypass_the_cache
    BYPASSES.each do |reason, requests|
      requests.each do |more|
        request = decide(more, credential_headers: ["x-tenant"])
        assert_equal [reason, :bypass, true, false], [request.reason, request.action, request.bypass?, request.lookup?], more.inspect[0, 80]
      end
    end
  end

  def test_credentials_can_be_ignored
    %i[authorization cookie client_certificate credential_header].flat_map { |reason| BYPASSES[reason] }.each do |more|
      assert_nil decide(more, credentials: :ignore, credential_headers: ["x-tenant"]).reason, more
    end
  end

  def test_trusted_proxies
    request = decide({"HTTP_X_FORWARDED_HOST" => "shop.example", "HTTP_X_FORWARDED_PROTO" => "http"}, trusted: true)
    assert_equal "http://shop.example/a?b=1", request.key
    assert_equal :key, decide({"HTTP_X_FORWARDED_HOST" => "a, b"}, trusted: true).reason
  end

  def test_the_key_follows_the_options
    options = {ignore_params: ["utm"], sort_query: true, scheme: "http"}
    assert_equal "http://example.org/a?a=1&b=2", decide({"QUERY_STRING" => "b=2&utm=1&a=1"}, **options).key
  end

  def test_a_request_that_bypasses_has_a_key_too
    assert_equal "https://example.org/a?b=1", decide({"REQUEST_METHOD" => "POST"}).key
    assert_nil decide({"REQUEST_METHOD" => "POST", "PATH_INFO" => "*"}).key
  end

  def test_plain
    assert_predicate decide, :plain?
    [{"PATH_INFO" => "/%61"}, {"HTTP_HOST" => "EXAMPLE.org"}].each do |more|
      request = decide(more)
      assert_predicate request, :lookup?
      refute_predicate request, :plain?
    end
  end

  def test_no_cache
    {
      {} => false, {"HTTP_CACHE_CONTROL" => "no-cache"} => true, {"HTTP_CACHE_CONTROL" => "No-Cache"} => true, {"HTTP_CACHE_CONTROL" => "max-age=0"} => true,
      {"HTTP_CACHE_CONTROL" => "max-age=x"} => true, {"HTTP_CACHE_CONTROL" => "max-age=1"} => false, {"HTTP_PRAGMA" => "no-cache"} => true,
      {"HTTP_PRAGMA" => "x, No-Cache"} => true, {"HTTP_PRAGMA" => "x"} => false, {"HTTP_PRAGMA" => "no-cache", "HTTP_CACHE_CONTROL" => "max-age=5"} => false,
      {"HTTP_PRAGMA" => "no-cache", "HTTP_CACHE_CONTROL" => ""} => false
    }.each { |more, wanted| assert_equal wanted, decide(more).no_cache?, more }
  end

  def test_directives
    {
      nil => [nil, nil, nil, false], "max-age=5" => [5, nil, nil, false], "min-fresh=7" => [nil, 7, nil, false],
      "max-stale" => [nil, nil, Float::INFINITY, false], "max-stale=9" => [nil, nil, 9, false], "max-stale=x" => [nil, nil, 0, false],
      "max-age=99999999999, max-stale=99999999999" => [2**31, nil, 2**31, false], "only-if-cached" => [nil, nil, nil, true]
    }.each do |control, directives|
      request = decide({"HTTP_CACHE_CONTROL" => control})
      assert_equal directives, [request.max_age, request.min_fresh, request.max_stale, request.only_if_cached?], control
    end
  end
end
