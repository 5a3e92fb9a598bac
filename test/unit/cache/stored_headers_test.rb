# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9111 §3.1.
class CacheStoredHeadersTest < Minitest::Test
  StoredHeaders = NeverBlock::Cache::StoredHeaders

  def test_all_headers_are_stored_but_some
    kept = {"content-type" => "a/b", "etag" => '"a"', "x-unknown" => "1", "link" => ["</a>", "</b>"], "date" => "d", "age" => "3", "vary" => "accept",
            "www-authenticate" => "Basic", "clear-site-data" => "\"cache\"", "x-accelerate" => "1"}
    dropped = %w[connection keep-alive proxy-authenticate proxy-authentication-info proxy-authorization proxy-connection te trailer transfer-encoding upgrade
      set-cookie set-cookie2 x-sendfile x-accel-redirect x-accel-buffering x-accel-expires x-lighttpd-send-file x-reproxy-url rack.hijack status]
      .to_h { |name| [name, "1"] }
    assert_equal kept, StoredHeaders.of({**kept, **dropped})
  end

  def test_headers_that_connection_lists_are_not_stored
    headers = {"a" => "1", "b" => "2", "c" => "3", "d" => "4"}
    assert_equal({"c" => "3", "d" => "4"}, StoredHeaders.of({**headers, "connection" => "A, b ,close"}))
    assert_equal({"c" => "3"}, StoredHeaders.of({**headers, "connection" => ["a", "B, d"]}))
    assert_equal({"b" => "2", "c" => "3", "d" => "4"}, StoredHeaders.of({**headers, "Connection" => "a"}))
  end

  def test_names_are_in_lower_case
    assert_equal({"x-a" => "1"}, StoredHeaders.of({"X-A" => "1", "Set-Cookie" => "a=b", "X-ACCEL-Redirect" => "/x", :"KEEP-Alive" => "1"}))
  end

  def test_the_result_is_frozen_and_the_response_unchanged
    value = +"1"
    lines = [+"a", +"b"]
    headers = {"x-a" => value, "x-b" => lines, "x-c" => nil, "x-d" => 5}
    stored = StoredHeaders.of(headers)
    assert Ractor.shareable?(stored)
    assert_equal({"x-a" => "1", "x-b" => %w[a b], "x-d" => "5"}, stored)
    value << "2"
    lines << "c"
    assert_equal({"x-a" => "1", "x-b" => %w[a b], "x-d" => "5"}, stored)
  end

  def test_only_other_caches_are_in_a_stored_cache_status
    assert_equal({"cache-status" => "Origin; hit"}, StoredHeaders.of({"cache-status" => "Origin; hit, NeverBlock; fwd=miss"}))
    assert_equal({}, StoredHeaders.of({"cache-status" => "NeverBlock; hit"}))
  end

  def test_a_response_without_a_date_gets_one
    assert_equal({"date" => "Sun, 06 Nov 1994 08:49:37 GMT"}, StoredHeaders.of({}, received_at: 784_111_777.5))
    assert_equal({"date" => "foo"}, StoredHeaders.of({"date" => "foo"}, received_at: 784_111_777))
  end

  def test_a_rack_header_hash
    require "rack/headers"
    assert_equal({"etag" => "1"}, StoredHeaders.of(Rack::Headers["ETag" => "1", "Set-Cookie" => "a"]))
  rescue LoadError
    skip "rack is not among the gems here"
  end
end
