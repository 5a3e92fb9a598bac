# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9211.
class CacheCacheStatusTest < Minitest::Test
  CacheStatus = NeverBlock::Cache::CacheStatus

  def test_parameters
    {
      {} => "NeverBlock",
      {hit: true} => "NeverBlock; hit",
      {hit: true, ttl: 376} => "NeverBlock; hit; ttl=376",
      {hit: true, ttl: -412} => "NeverBlock; hit; ttl=-412",
      {hit: true, ttl: 30.9} => "NeverBlock; hit; ttl=30",
      {hit: true, ttl: -0.1} => "NeverBlock; hit; ttl=-1",
      {hit: true, ttl: 10**20} => "NeverBlock; hit; ttl=999999999999999",
      {hit: false} => "NeverBlock; hit=?0",
      {fwd: :uri_miss} => "NeverBlock; fwd=uri-miss",
      {fwd: :stale, fwd_status: 304} => "NeverBlock; fwd=stale; fwd-status=304",
      {fwd: :uri_miss, collapsed: true} => "NeverBlock; fwd=uri-miss; collapsed",
      {fwd: :uri_miss, collapsed: false, stored: true} => "NeverBlock; fwd=uri-miss; stored; collapsed=?0",
      {fwd: :vary_miss, stored: false} => "NeverBlock; fwd=vary-miss; stored=?0",
      {fwd: :miss, hit: false} => "NeverBlock; hit=?0; fwd=miss",
      {hit: true, key: "https://a/b?c"} => 'NeverBlock; hit; key="https://a/b?c"',
      {hit: true, detail: :memory} => "NeverBlock; hit; detail=memory",
      {hit: true, detail: "set_cookie"} => "NeverBlock; hit; detail=set_cookie",
      {hit: true, detail: "two words"} => 'NeverBlock; hit; detail="two words"',
      {hit: true, detail: ""} => 'NeverBlock; hit; detail=""'
    }.each { |parameters, text| assert_equal text, CacheStatus.new(**parameters).to_s }
  end

  def test_reasons_to_forward
    {bypass: "bypass", method: "method", uri_miss: "uri-miss", vary_miss: "vary-miss", miss: "miss", request: "request", stale: "stale", partial: "partial"}
      .each { |fwd, token| assert_equal "NeverBlock; fwd=#{token}", CacheStatus.new(fwd:).to_s }
  end

  def test_names
    {"NeverBlock" => "NeverBlock", "cache-3.example.com" => "cache-3.example.com", "CDN Company Here" => '"CDN Company Here"', "3" => '"3"', "" => '""',
     "a, b; hit" => '"a, b; hit"'}.each { |name, text| assert_equal text, CacheStatus.new(name).to_s }
  end

  def test_texts_are_quoted_and_printable
    {
      'a"b\\c' => '"a\\"b\\\\c"', "a\r\nSet-Cookie: x" => '"aSet-Cookie: x"', "é" => '""', "a\0\x7f\t b" => '"a b"', "\xff" => '""', "a".encode("UTF-16LE") => '"a"',
      "a" * 5_000 => "\"#{"a" * 1_024}\""
    }.each { |key, text| assert_equal "NeverBlock; hit; key=#{text}", CacheStatus.new(hit: true, key:).to_s }
    assert_equal 'NeverBlock; detail="a\\"; hit"', CacheStatus.new(detail: 'a"; hit').to_s
    assert_equal 'NeverBlock; detail="a,b"', CacheStatus.new(detail: "a\n,b").to_s
  end

  def test_the_name_is_not_changed
    name = +"NeverBlock"
    CacheStatus.new(name, hit: true).to_s
    assert_equal "NeverBlock", name
  end

  def test_later_values
    status = CacheStatus.new(fwd: :miss)
    status.key = "k"
    status.detail = "d"
    status.ttl = 5
    status.stored = true
    status.collapsed = true
    assert_equal 'NeverBlock; fwd=miss; ttl=5; stored; collapsed; key="k"; detail=d', status.to_s
  end

  def test_invalid_parameters
    assert_includes assert_raises(ArgumentError) { CacheStatus.new(hit: true, fwd: :miss) }.message, "exclude each other"
    assert_includes assert_raises(ArgumentError) { CacheStatus.new(fwd: :other) }.message, "fwd: :other is not one of :bypass"
  end

  def test_append
    {
      nil => "NeverBlock; hit", "" => "NeverBlock; hit", " " => "NeverBlock; hit", [] => "NeverBlock; hit", "Origin; hit" => "Origin; hit, NeverBlock; hit",
      ["A; hit", "B; fwd=miss"] => "A; hit, B; fwd=miss, NeverBlock; hit", "a\r\nb" => "NeverBlock; hit", "a" * 5_000 => "NeverBlock; hit"
    }.each do |before, after|
      headers = {"cache-status" => before}.compact
      assert_same headers, CacheStatus.append(headers, hit: true)
      assert_equal({"cache-status" => after}, headers)
    end
    assert_equal({"cache-status" => "Other; hit"}, CacheStatus.append({}, "Other", hit: true))
    assert_equal({"cache-status" => "NeverBlock; hit"}, CacheStatus.new(hit: true).append({}))
  end

  def test_without_own
    {
      nil => nil, "" => nil, "NeverBlock" => nil, "NeverBlock; hit" => nil, '"NeverBlock"; hit' => nil, "A; hit" => "A; hit", "A, NeverBlock; hit, B" => "A, B",
      "NeverBlockade; hit" => "NeverBlockade; hit", "A; detail=NeverBlock" => "A; detail=NeverBlock", ["A", "NeverBlock"] => "A",
      'A; key="x, NeverBlock; hit", NeverBlock' => 'A; key="x, NeverBlock; hit"', 'A; key="\\", NeverBlock"' => 'A; key="\\", NeverBlock"', 'A; key="x' => nil,
      "A\nB" => nil, "a" * 5_000 => nil
    }.each do |value, left|
      found = CacheStatus.without_own(value)
      left ? assert_equal(left, found) : assert_nil(found, value.inspect[0, 60])
    end
  end
end
