# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9213: CDN-Cache-Control and the like, in place of Cache-Control.
class CacheTargetedFieldTest < Minitest::Test
  CacheControl = NeverBlock::Cache::CacheControl
  CDN = ["cdn-cache-control"].freeze

  def of(cdn, control = "no-store", targeted: CDN)
    CacheControl.of_response({"cache-control" => control, "cdn-cache-control" => cdn}, targeted:)
  end

  # What counts in place of Cache-Control: the number of max-age.
  VALID = {
    "max-age=60" => 60, "max-age=0060" => 60, " max-age=60 " => 60, "foobar, max-age=60" => 60, "max-age=60;a=b;c" => 60,
    "max-age=60; a=\"x, y\"; b=1.5; c=:YQ==:; d=?0; e=tok/en:x" => 60, "max-age=60,\tno-transform" => 60,
    "max-age=99999999999" => 2**31, "max-age=999999999999999" => 2**31, "max-age=0" => 0, "max-age=-1" => 0,
    "max-age=1.5" => 0, 'max-age="60"' => 0, "max-age=sixty" => 0, "max-age" => 0, "max-age=(60)" => 0, "max-age=?1" => 0,
    "max-age=60, max-age=5" => 5, "max-age=5, max-age=60" => 5, "max-age=60, ext=(a \"b\" 1.5 ?0);q=1" => 60,
    "max-age=60, ext=()" => 60, "max-age=60, ext=( a  b;x )" => 60, "max-age=60, ext=@1659578233" => 60,
    "max-age=60, ext=%\"caf%c3%a9\"" => 60, "max-age=60, ext=:YWJj:" => 60, "*x=1, max-age=60" => 60
  }.freeze

  def test_valid_fields_replace_cache_control
    VALID.each do |value, seconds|
      control = of(value)
      assert_predicate control, :targeted?, value
      refute control.key?("no-store"), value
      assert_equal seconds, control.seconds("max-age"), value
    end
  end

  # No restriction can be read from these: they don't count at all (§2.1).
  INVALID = [
    nil, "", "  ", [], "max-age=60, &&&&&", "MaX-aGe=60", "max-age =60", "max-age= 60", "max-age=60,", ",max-age=60",
    "max-age=60,,x", "max-age=60 x", "max-age=60;", "max-age=60;A=1", "max-age=60;a =1", "max-age=60;\ta", "max-age=",
    "max-age=60a", "max-age=60.", "max-age=.5", "max-age=1.2345", "max-age=1234567890123456", "max-age=--1", "ext=\"a",
    "ext=\"a\\x\"", "ext=\"\x01\"", "ext=\"é\"", "é", "ext=(a", "ext=(a)b", "ext=(a,b)", "ext=(a\"b\")", "ext=?2",
    "ext=:a b:", "ext=%\"%C3\"", "ext=%\"%zz\"", "ext=@1.5", "public=?0, max-age=60", "1=2", "max-age=60\x00", "\xff"
  ].freeze

  def test_invalid_fields_do_not_count
    INVALID.each do |value|
      control = of(value, "public, max-age=7")
      refute_predicate control, :targeted?, value.inspect
      assert_equal 7, control.seconds("max-age"), value.inspect
    end
  end

  # Their authors have wanted to forbid something.
  def test_doubtful_fields_forbid
    ["Private", "private; max-age=0;", "no-store,", "NO-CACHE", "max-age=60 private", "no-store=?0", "private=?0, max-age=60",
      "max-age=60, private=\"a"].each do |value|
      control = of(value, "public, max-age=7")
      assert control.key?("no-store"), value.inspect
      refute control.key?("public"), value.inspect
    end
    ["x-private, &", "nonprivate, &", "no-storex, &"].each { |value| assert_equal 7, of(value, "max-age=7").seconds("max-age") }
  end

  def test_restrictions
    {"private" => "private", 'private="x"' => "private", "no-store" => "no-store", "no-cache=?1" => "no-cache",
     "max-age=60, must-revalidate" => "must-revalidate", 'no-cache="a, b"' => "no-cache"}.each do |value, name|
      assert of(value, "public, max-age=7").key?(name), value
    end
    assert_equal "a, \"b\\", of('no-cache="a, \\"b\\\\"')["no-cache"]
  end

  def test_a_directive_that_is_not_known_still_replaces_cache_control
    control = of("none", "max-age=60")
    assert_predicate control, :targeted?
    assert_nil control.seconds("max-age")
  end

  def test_the_first_valid_field_of_the_list_counts
    headers = {"cache-control" => "max-age=1", "cdn-cache-control" => "max-age=2", "our-cache-control" => "max-age=3"}
    list = %w[our-cache-control cdn-cache-control]
    assert_equal 3, CacheControl.of_response(headers, targeted: list).seconds("max-age")
    assert_equal 2, CacheControl.of_response({**headers, "our-cache-control" => "&"}, targeted: list).seconds("max-age")
    assert_equal 2, CacheControl.of_response({**headers, "our-cache-control" => ""}, targeted: list).seconds("max-age")
    assert_equal 1, CacheControl.of_response(headers.slice("cache-control"), targeted: list).seconds("max-age")
    assert_equal 1, CacheControl.of_response(headers).seconds("max-age")
  end

  def test_several_lines_are_one_dictionary
    control = of(["max-age=60", "private"])
    assert_equal 60, control.seconds("max-age")
    assert control.key?("private")
  end

  def test_the_length_is_bounded
    assert of("max-age=60, ext=\"#{"a" * 9_000}\"", "max-age=7").key?("no-store")
  end

  def test_hostile_fields_take_linear_time
    ["a=(" + " a" * 4_000, "a=\"" + "\\\\" * 4_000, "a" + ";b" * 4_000 + ";", "a," * 4_000, "a=(" * 2_000, "a=%\"" + "%c3" * 2_600,
      "a" + " " * 8_000 + "b", "a=:" + "a" * 8_000, "a=(" + "a;b=1 " * 1_300].each do |value|
      refute_predicate of(value, "max-age=7"), :targeted?
    end
  end
end
