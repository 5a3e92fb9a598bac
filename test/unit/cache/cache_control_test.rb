# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9111 §5.2.
class CacheCacheControlTest < Minitest::Test
  CacheControl = NeverBlock::Cache::CacheControl

  # Field value => the directives that it has, in this order of names and arguments.
  VALID = {
    nil => {}, "" => {}, [] => {}, "," => {}, " ,\t, " => {},
    "no-store" => {"no-store" => true},
    "No-StOrE" => {"no-store" => true},
    "public, max-age=60" => {"public" => true, "max-age" => "60"},
    "public,max-age=60,,immutable," => {"public" => true, "max-age" => "60", "immutable" => true},
    ["public", "max-age=60"] => {"public" => true, "max-age" => "60"},
    'max-age="60"' => {"max-age" => "60"},
    'private="set-cookie, x", public' => {"private" => "set-cookie, x", "public" => true},
    "no-cache=x" => {"no-cache" => "x"},
    'ext="max-age=3600", max-age=1' => {"ext" => "max-age=3600", "max-age" => "1"},
    'max-age=1, ext="a, max-age=3600, \\"no-store\\""' => {"max-age" => "1", "ext" => 'a, max-age=3600, "no-store"'},
    "max-age='60'" => {"max-age" => "'60'"},
    'ext=""' => {"ext" => ""},
    "ext=\"\t \xC3\xA9\"" => {"ext" => "\t \xC3\xA9".b}
  }.freeze

  def test_valid_fields
    VALID.each do |value, directives|
      control = CacheControl.parse(value)
      refute_predicate control, :malformed?, value.inspect
      assert_equal directives.empty?, control.empty?
      directives.each do |name, argument|
        assert control.key?(name), value.inspect
        assert_equal argument, control[name], value.inspect
      end
      refute control.key?("no-store"), value.inspect unless directives.key?("no-store")
    end
  end

  # Each may hide a directive that another reader sees.
  MALFORMED = [
    "max-age=60; private", "max-age=60 private", "max-age =60", "max-age= 60", "max-age=", "=60", "=", "max-age==60",
    '"private"', 'ext="a, private', 'ext="a\\", private', 'ext="a"b, private', 'ext="\\', "ext=a\"b\"", "public, \x00",
    "public\nprivate", "public\r\nSet-Cookie: a=b", "ext=\"a\nb\"", "ext=\"a\\\nb\"", "privat\xC3\xA9", "\xff", "a@b", "a/b", "a:b",
    "(private)", "{}", "public, max-age=60;", ["ext=\"a", "private"], "p\u0131vate", "public, max-age=60 s-maxage=3"
  ].freeze

  def test_malformed_fields_count_as_no_store
    MALFORMED.each do |value|
      control = CacheControl.parse(value)
      assert_predicate control, :malformed?, value.inspect
      assert control.key?("no-store"), value.inspect
      refute control.key?("public"), value.inspect
      assert_nil control.seconds("max-age"), value.inspect
    end
  end

  def test_encodings_do_not_matter
    ["public, ext=\"é\"", "public, ext=\"é\"".b, "public, ext=\"\xff\""].each do |text|
      assert CacheControl.parse(text).key?("public"), text.inspect
    end
    assert_predicate CacheControl.parse("public".encode("UTF-16LE")), :malformed?
  end

  SECONDS = {
    "max-age=60" => 60, 'max-age="60"' => 60, "MAX-AGE=60" => 60, "max-age=003600" => 3600, "max-age=0" => 0,
    "max-age=2147483647" => 2**31 - 1, "max-age=2147483648" => 2**31, "max-age=2147483649" => 2**31,
    "max-age=99999999999" => 2**31, "max-age=#{"9" * 4000}" => 2**31, "max-age=#{"0" * 4000}7" => 7,
    "max-age" => 0, "max-age=-1" => 0, "max-age=+1" => 0, "max-age=1.5" => 0, "max-age=3600.0" => 0, "max-age=a1" => 0,
    "max-age=1a" => 0, "max-age='60'" => 0, 'max-age=" 60"' => 0, 'max-age=""' => 0, "max-age=1e3" => 0,
    "max-age=0x10" => 0, "max-age=1_000" => 0, "max-age=\"1\t\"" => 0, 'max-age="\\60"' => 60,
    "max-age=1800, max-age=1" => 1, "max-age=1, max-age=1800" => 1, "max-age=60, max-age=60" => 60,
    "max-age=60, max-age=x" => 0, "max-age=x, max-age=60" => 0, "max-age=60, max-age" => 0, "max-age, max-age=60" => 0,
    "s-maxage=60" => nil, "x-max-age=60" => nil, 'ext="max-age=60"' => nil, nil => nil
  }.freeze

  def test_seconds
    SECONDS.each do |value, seconds|
      found = CacheControl.parse(value).seconds("max-age")
      seconds.nil? ? assert_nil(found, value) : assert_equal(seconds, found, value.to_s[0, 40])
    end
  end

  def test_the_smallest_number_of_several_lines_counts
    assert_equal 1, CacheControl.parse(["max-age=1800", "max-age=1"]).seconds("max-age")
    assert_equal 1, CacheControl.parse(["max-age=1", "max-age=1800"]).seconds("max-age")
  end

  def test_repeated_directives_without_numbers
    assert_equal "a", CacheControl.parse('private="a", private="b"')["private"]
    assert_equal true, CacheControl.parse('private, private="b"')["private"]
  end

  def test_the_length_is_bounded
    assert CacheControl.parse("public, ext=#{"a" * 8_000}").key?("public")
    ["public, ext=#{"a" * 9_000}", "public" + "," * 9_000, ["public"] * 2_000, " " * 9_000].each do |value|
      assert_predicate CacheControl.parse(value), :malformed?
    end
  end

  def test_hostile_fields_take_linear_time
    [" \t" * 4_000 + "@", "," * 8_000 + "@", "a=\"" + "\\a" * 4_000, "a=\"" + "b" * 8_000, "a," * 4_000 + "@", "\"" * 8_000]
      .each { |text| assert_predicate CacheControl.parse(text), :malformed? }
    assert_predicate CacheControl.parse("a" * 50_000_000), :malformed?
  end

  def test_must_understand
    assert_predicate CacheControl.parse("no-store, must-understand"), :must_understand?
    refute_predicate CacheControl.parse("no-store, must-understand=no"), :must_understand?
    refute_predicate CacheControl.parse("no-store"), :must_understand?
  end

  def test_results_are_frozen
    assert_predicate CacheControl.parse("public"), :frozen?
    assert Ractor.shareable?(CacheControl::NONE)
    assert Ractor.shareable?(CacheControl::MALFORMED)
  end
end
