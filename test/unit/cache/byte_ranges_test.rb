# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §14, §13.1.5.
class CacheByteRangesTest < Minitest::Test
  ByteRanges = NeverBlock::Cache::ByteRanges
  T = ["Sat, 01 Jan 2022 00:00:00 GMT", "Sat, 01 Jan 2022 00:00:01 GMT"].freeze

  def range(text, size: 10, headers: {}, method: "GET", if_range: nil)
    ByteRanges.of({"REQUEST_METHOD" => method, "HTTP_RANGE" => text, "HTTP_IF_RANGE" => if_range}, size:, headers:)
  end

  # Of ten bytes.
  RANGES = {
    "bytes=0-4" => 0..4, "bytes=0-0" => 0..0, "bytes=5-" => 5..9, "bytes=9-9" => 9..9, "bytes=0-9" => 0..9, "bytes=0-" => 0..9, "bytes=5-99" => 5..9,
    "bytes=-5" => 5..9, "bytes=-1" => 9..9, "bytes=-10" => 0..9, "bytes=-99" => 0..9, "Bytes=0-4" => 0..4, "bytes= 0-4 " => 0..4, "bytes=,0-4," => 0..4,
    "bytes=000-004" => 0..4, "bytes=0-#{"9" * 500}" => 0..9, "bytes=-#{"9" * 500}" => 0..9, "bytes=0-4, 10-12" => 0..4, "bytes=-0, 3-4" => 3..4,
    "bytes=10-" => :unsatisfiable, "bytes=10-12" => :unsatisfiable, "bytes=-0" => :unsatisfiable, "bytes=#{"9" * 500}-" => :unsatisfiable,
    "bytes=10-,11-,-0" => :unsatisfiable,
    # Several parts, and what is invalid: all is sent.
    "bytes=0-1,3-4" => nil, "bytes=0-0,-1" => nil, "bytes=0-4,2-6" => nil, "bytes=#{"0-0," * 200}" => nil, "bytes=" => nil, "bytes=," => nil, "bytes=-" => nil,
    "bytes=4-0" => nil, "bytes=12-11" => nil, "bytes=0-1,4-0" => nil, "bytes=a-b" => nil, "bytes=0-4x" => nil, "bytes=0x0-4" => nil, "bytes=+0-4" => nil,
    "bytes=--1" => nil, "bytes=0 - 4" => nil, "bytes=0-4-5" => nil, "bytes=0" => nil, "bytes =0-4" => nil, "bytes:0-4" => nil, "bytes" => nil, "" => nil,
    "items=0-4" => nil, "0-4" => nil, "bytes=0-4\n" => nil, "bytes=\xff" => nil, "bytes=1_0-" => nil, "bytes=１-２" => nil, "bytes=0-#{"9" * 5_000}" => nil,
    nil => nil
  }.freeze

  def test_ranges
    RANGES.each do |text, result|
      found = range(text)
      result ? assert_equal(result, found, text.inspect[0, 60]) : assert_nil(found, text.inspect[0, 60])
    end
  end

  def test_several_lines
    assert_nil range(["bytes=0-1", "bytes=3-4"])
    assert_nil range("bytes=0-1, bytes=3-4")
  end

  def test_only_a_get_of_a_known_length_is_partial
    %w[HEAD POST get].each { |method| assert_nil range("bytes=0-4", method:) }
    assert_nil range("bytes=0-4", size: nil)
    ["bytes=0-", "bytes=-1", "bytes=5-6"].each { |text| assert_nil range(text, size: 0) }
    assert_equal 0..0, range("bytes=0-4", size: 1)
  end

  def test_an_app_may_refuse_ranges
    assert_nil range("bytes=0-4", headers: {"accept-ranges" => "None"})
    assert_equal 0..4, range("bytes=0-4", headers: {"accept-ranges" => "bytes"})
  end

  def test_if_range
    headers = {"etag" => '"a"', "last-modified" => T[0], "date" => T[1]}
    {
      '"a"' => 0..4, ' "a" ' => 0..4, T[0] => 0..4, "Saturday, 01-Jan-22 00:00:00 GMT" => 0..4,
      '"b"' => nil, 'W/"a"' => nil, "a" => nil, "*" => nil, '"a", "b"' => nil, "" => nil, T[1] => nil, "Fri, 31 Dec 2021 23:59:59 GMT" => nil, "foo" => nil
    }.each do |validator, result|
      found = range("bytes=0-4", headers:, if_range: validator)
      result ? assert_equal(result, found, validator) : assert_nil(found, validator)
      assert_nil range("bytes=10-", headers:, if_range: validator) unless result
    end
    assert_equal :unsatisfiable, range("bytes=10-", headers:, if_range: '"a"')
    assert_nil range(nil, headers:, if_range: '"a"')
  end

  def test_if_range_with_weak_validators
    assert_nil range("bytes=0-4", headers: {"etag" => 'W/"a"'}, if_range: 'W/"a"')
    assert_nil range("bytes=0-4", headers: {"etag" => "a"}, if_range: "a")
    assert_nil range("bytes=0-4", headers: {}, if_range: '"a"')
    [{"last-modified" => T[0], "date" => T[0]}, {"last-modified" => T[0]}, {"last-modified" => T[0], "date" => "foo"}, {"date" => T[1]}].each do |headers|
      assert_nil range("bytes=0-4", headers:, if_range: T[0])
    end
  end
end
