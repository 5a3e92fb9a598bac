# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §8.8.3.
class CacheEntityTagTest < Minitest::Test
  EntityTag = NeverBlock::Cache::EntityTag

  VALID = ['"a"', 'W/"a"', '""', 'W/""', '"a,b"', '"a\\"', '"W/"', "\"\xC3\xA9\"".b].freeze
  INVALID = [nil, "", "a", "W/a", 'w/"a"', 'W"a"', 'W\\"a"', '"a', 'a"', '"a" ', ' "a"', '"a b"', "\"a\tb\"", "\"a\n\"", "\"a\"\n", "\"\x00\"", "\"\x7f\"",
    '"a"b"', '"a", "b"', ['"a"', '"b"'], "W/ \"a\"", "'a'", "*"].freeze

  def test_what_is_an_entity_tag
    VALID.each { |text| assert_equal text, EntityTag.of(text) }
    INVALID.each { |text| assert_nil EntityTag.of(text), text.inspect }
    assert_equal EntityTag.of("\"é\""), EntityTag.of("\"é\"".b)
    assert_equal '"a"', EntityTag.of(['"a"'])
  end

  # RFC 9110, table 3: strong and weak comparison.
  def test_comparisons
    {
      ['W/"1"', 'W/"1"'] => [false, true], ['W/"1"', 'W/"2"'] => [false, false], ['W/"1"', '"1"'] => [false, true], ['"1"', '"1"'] => [true, true],
      ['"1"', '"2"'] => [false, false], ['"a"', '"A"'] => [false, false], ['"W/"', 'W/""'] => [false, false]
    }.each do |(one, other), results|
      assert_equal results, [EntityTag.strong_match?(one, other), EntityTag.weak_match?(one, other)], [one, other].inspect
      assert_equal results, [EntityTag.strong_match?(other, one), EntityTag.weak_match?(other, one)], [other, one].inspect
    end
  end

  def test_lists
    {
      '"a"' => true, 'W/"a"' => true, '"a", "b"' => true, '"b", "a"' => true, '"b","c" ,W/"a"' => true, '"b",,"a",' => true, ', "a"' => true,
      "\t\"a\"\t,\"b\"" => true, '"b"' => false, "" => false, "," => false, '"A"' => false, '"b,"a' => false,
      # Lists with an invalid member.
      "a" => false, '"a", b' => false, 'b, "a"' => false, '"a" "b"' => false, '"a"b' => false, '"a" ; "b"' => false, 'w/"a"' => false, '"b" "a"' => false,
      '*, "a"' => false, '"a", *' => false, "\"a\", \xff".b => false, "\"a\",\n\"b\"" => false
    }.each { |list, listed| assert_equal listed, EntityTag.listed?(list, '"a"'), list.inspect }
    assert EntityTag.listed?('"a", "b"', 'W/"b"')
  end

  def test_long_lists
    assert EntityTag.listed?("\"b\", " * 10_000 + '"a"', '"a"')
    refute EntityTag.listed?("\"b\", " * 100_000 + '"a"', '"a"')
    [" " * 60_000 + "x", "\"" + "b" * 60_000, "," * 60_000, "\"a\"" * 20_000].each { |list| refute EntityTag.listed?(list, '"a"') }
  end
end
