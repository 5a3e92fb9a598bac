# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §13, RFC 9111 §3.2, §4.3.
class CacheConditionalTest < Minitest::Test
  Conditional = NeverBlock::Cache::Conditional
  T = ["Sat, 01 Jan 2022 00:00:00 GMT", "Sat, 01 Jan 2022 00:00:01 GMT", "Sat, 01 Jan 2022 00:00:02 GMT"].freeze
  STORED = {"etag" => '"a"', "last-modified" => T[1], "date" => T[2], "cache-control" => "max-age=60"}.freeze

  def not_modified?(more, headers = STORED, status: 200, method: "GET", received_at: nil)
    Conditional.not_modified?({"REQUEST_METHOD" => method, **more}, status:, headers:, received_at:)
  end

  def test_if_none_match
    {
      '"a"' => true, 'W/"a"' => true, '"b", "a"' => true, "*" => true, " * " => true, ' "a" ' => true,
      '"b"' => false, "" => false, "a" => false, '"b", *' => false, '"a", b' => false, "**" => false, "\xff" => false
    }.each { |list, result| assert_equal result, not_modified?({"HTTP_IF_NONE_MATCH" => list}), list.inspect }
    assert not_modified?({"HTTP_IF_NONE_MATCH" => '"a"'}, {"etag" => 'W/"a"'})
    assert not_modified?({"HTTP_IF_NONE_MATCH" => "\"é\""}, {"etag" => "\"é\"".b})
  end

  def test_if_none_match_without_a_valid_entity_tag
    [{}, {"etag" => "a"}, {"etag" => ['"a"', '"b"']}, {"last-modified" => T[1]}].each do |headers|
      refute not_modified?({"HTTP_IF_NONE_MATCH" => '"a"'}, headers)
      refute not_modified?({"HTTP_IF_NONE_MATCH" => "a"}, headers)
      assert not_modified?({"HTTP_IF_NONE_MATCH" => "*"}, headers)
    end
  end

  def test_if_none_match_takes_precedence
    assert not_modified?({"HTTP_IF_NONE_MATCH" => '"a"', "HTTP_IF_MODIFIED_SINCE" => T[0]})
    refute not_modified?({"HTTP_IF_NONE_MATCH" => '"b"', "HTTP_IF_MODIFIED_SINCE" => T[2]})
    refute not_modified?({"HTTP_IF_NONE_MATCH" => "", "HTTP_IF_MODIFIED_SINCE" => T[2]})
    refute not_modified?({"HTTP_IF_NONE_MATCH" => '"b"', "HTTP_IF_MODIFIED_SINCE" => T[2]}, STORED.except("etag"))
  end

  def test_if_modified_since
    {
      T[0] => false, T[1] => true, T[2] => true, "Saturday, 01-Jan-22 00:00:01 GMT" => true, "Sat Jan  1 00:00:01 2022" => true,
      "" => false, "0" => false, "foo" => false, "#{T[2]}, #{T[2]}" => false, "2022-01-02T00:00:00Z" => false, "Sun, 01 Jan 2023 00:00:00 UTC" => false
    }.each { |since, result| assert_equal result, not_modified?({"HTTP_IF_MODIFIED_SINCE" => since}), since }
  end

  # RFC 9111 §4.3.2.
  def test_if_modified_since_without_a_last_modified
    headers = {"date" => T[1]}
    assert_equal [false, true], [T[0], T[1]].map { |since| not_modified?({"HTTP_IF_MODIFIED_SINCE" => since}, headers) }
    received_at = Time.utc(2022, 1, 1, 0, 0, 1).to_i
    assert_equal [false, true], [T[0], T[1]].map { |since| not_modified?({"HTTP_IF_MODIFIED_SINCE" => since}, {}, received_at:) }
    refute not_modified?({"HTTP_IF_MODIFIED_SINCE" => T[2]}, {})
  end

  def test_an_invalid_last_modified_is_not_replaced_by_the_date
    refute not_modified?({"HTTP_IF_MODIFIED_SINCE" => T[2]}, {"last-modified" => "yesterday", "date" => T[0]})
    refute not_modified?({"HTTP_IF_MODIFIED_SINCE" => T[2]}, {"last-modified" => [T[0], T[1]], "date" => T[0]})
  end

  def test_only_a_get_or_head_of_a_200_is_conditional
    %w[GET HEAD].each { |method| assert not_modified?({"HTTP_IF_NONE_MATCH" => '"a"'}, method:) }
    %w[POST PUT OPTIONS get].each { |method| refute not_modified?({"HTTP_IF_NONE_MATCH" => '"a"', "HTTP_IF_MODIFIED_SINCE" => T[2]}, method:) }
    [203, 204, 206, 301, 304, 404, 500].each { |status| refute not_modified?({"HTTP_IF_NONE_MATCH" => "*"}, status:) }
    refute not_modified?({})
    refute not_modified?({"HTTP_IF_MATCH" => '"b"', "HTTP_IF_UNMODIFIED_SINCE" => T[0]})
  end

  def test_headers_for
    assert_equal({"HTTP_IF_NONE_MATCH" => '"a"', "HTTP_IF_MODIFIED_SINCE" => T[1]}, Conditional.headers_for(STORED))
    assert_equal({"HTTP_IF_NONE_MATCH" => 'W/"a"'}, Conditional.headers_for({"etag" => 'W/"a"'}))
    assert_equal({"HTTP_IF_MODIFIED_SINCE" => T[1]}, Conditional.headers_for({"last-modified" => T[1], "etag" => "a"}))
    [{}, {"etag" => "a"}, {"etag" => "\"a\"\r\nX: y"}, {"etag" => ['"a"', '"b"']}, {"last-modified" => "foo"}, {"date" => T[0]}].each do |headers|
      assert_empty Conditional.headers_for(headers)
      refute Conditional.validator?(headers)
    end
    assert Conditional.validator?({"etag" => '"a"'})
    assert Conditional.validator?({"last-modified" => T[0]})
  end

  # Stored headers, headers of the 304 => whether these belong together (RFC 9111 §4.3.4).
  SELECTED = {
    [{"etag" => '"a"'}, {"etag" => '"a"'}] => true,
    [{"etag" => '"a"'}, {"etag" => '"b"'}] => false,
    [{"etag" => 'W/"a"'}, {"etag" => '"a"'}] => false, # a strong validator must be the same
    [{"etag" => '"a"'}, {"etag" => 'W/"a"'}] => true,
    [{"etag" => 'W/"a"'}, {"etag" => 'W/"a"'}] => true,
    [{"etag" => 'W/"a"'}, {"etag" => 'W/"b"'}] => false,
    [{}, {"etag" => '"a"'}] => false,
    [{"etag" => "a"}, {"etag" => "a"}] => false,
    [{"etag" => '"a"'}, {"etag" => "a"}] => false,
    [{"last-modified" => T[1]}, {"etag" => '"a"', "last-modified" => T[1]}] => false,
    [{"etag" => '"a"', "last-modified" => T[1]}, {"etag" => '"b"', "last-modified" => T[1]}] => false,
    [{"etag" => '"a"', "last-modified" => T[1]}, {"etag" => '"a"', "last-modified" => T[2]}] => true,
    [{"last-modified" => T[1]}, {"last-modified" => T[1]}] => true,
    [{"last-modified" => T[1]}, {"last-modified" => "Saturday, 01-Jan-22 00:00:01 GMT"}] => true,
    [{"etag" => '"a"', "last-modified" => T[1]}, {"last-modified" => T[1]}] => true,
    [{"last-modified" => T[1]}, {"last-modified" => T[2]}] => false,
    [{}, {"last-modified" => T[1]}] => false,
    [{"last-modified" => "foo"}, {"last-modified" => "foo"}] => false,
    [{}, {}] => true,
    [{"date" => T[0]}, {"date" => T[1]}] => true,
    [{"etag" => '"a"'}, {}] => true, # to a request with this tag and no other
    [{"last-modified" => T[1]}, {}] => true
  }.freeze

  def test_the_304_of_a_stored_response
    SELECTED.each { |(stored, headers), result| assert_equal result, Conditional.selects?(stored, headers), [stored, headers].inspect }
  end

  def test_merge
    stored = {
      "etag" => '"a"', "last-modified" => T[1], "date" => T[2], "cache-control" => "max-age=60", "content-type" => "image/png", "content-length" => "5", "content-encoding" => "gzip", "age" => "30", "x-old" => "1", "x-both" => "1",
      "content-security-policy" => "a"
    }.freeze
    update = {
      "etag" => 'W/"a"', "date" => T[2], "cache-control" => "max-age=5", "content-type" => "text/html", "content-length" => "0", "content-encoding" => "br",
      "content-range" => "bytes 0-1/2", "x-both" => "2", "x-new" => ["a", "b"], "connection" => "x-hop", "x-hop" => "1", "keep-alive" => "1",
      "transfer-encoding" => "chunked", "set-cookie" => "a=b", "content-security-policy" => "b", "content-location" => "/b"
    }
    merged = Conditional.merge(stored, update)
    expected = {
      "etag" => 'W/"a"', "last-modified" => T[1], "date" => T[2], "cache-control" => "max-age=5", "content-type" => "image/png", "content-length" => "5",
      "content-encoding" => "gzip", "x-old" => "1", "x-both" => "2", "x-new" => ["a", "b"], "content-security-policy" => "b", "content-location" => "/b"
    }
    assert_equal expected, merged
    assert_predicate merged, :frozen?
    assert_equal "30", stored["age"]
  end

  def test_a_merge_restarts_the_age
    stored = {"age" => "30", "date" => T[0]}
    assert_equal({}, Conditional.merge(stored, {}))
    assert_equal({"age" => "3", "date" => T[1]}, Conditional.merge(stored, {"age" => "3", "date" => T[1]}))
    received_at = Time.utc(2022, 1, 1, 0, 0, 2).to_i
    assert_equal({"date" => T[2]}, Conditional.merge(stored, {}, received_at:))
    assert_equal({"date" => T[1]}, Conditional.merge(stored, {"date" => T[1]}, received_at:))
  end

  def test_headers_of_a_304
    headers = {**STORED, "vary" => "accept", "expires" => T[2], "content-location" => "/a", "cdn-cache-control" => "max-age=5", "age" => "3",
                         "cache-status" => "NeverBlock; hit", "content-type" => "a/b", "content-length" => "5", "content-encoding" => "gzip", "x-other" => "1"}
    kept = %w[cache-control cdn-cache-control content-location date etag expires last-modified vary age cache-status]
    assert_equal kept.sort, Conditional.headers_of_not_modified(headers).keys.sort
  end
end
