# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# Field values become texts that regular expressions and comparisons can handle.
class CacheFieldTest < Minitest::Test
  Field = NeverBlock::Cache::Field

  def test_texts
    {
      nil => nil, [] => nil, "" => "", "a" => "a", ["a"] => "a", ["a", "b, c"] => "a, b, c", [nil, "a"] => ", a",
      5 => "5", ["a", 5] => "a, 5"
    }.each { |value, text| text.nil? ? assert_nil(Field.text(value)) : assert_equal(text, Field.text(value), value.inspect) }
  end

  def test_texts_with_the_same_bytes_are_equal
    one = "é"
    other = "é".b
    refute_equal one, other
    assert_equal Field.text(one), Field.text(other)
    assert_equal Field.text([one, "a"]), Field.text(["é".b, "a"])
  end

  def test_no_encoding_is_fatal
    ["\xff", "\xff".b, "a".encode("UTF-16LE"), "\xe9".dup.force_encoding("ISO-8859-1"), "\0".dup.force_encoding("UTF-16BE")]
      .each { |text| refute_match(/\Ax/, Field.text(text)) }
    assert_equal "\xff, é".b, Field.text(["\xff", "é".b])
  end

  def test_members
    {nil => [], "" => [], "Close, X-Hop ,,te" => %w[close x-hop te], ["a", "B , c"] => %w[a b c], ", \t," => []}
      .each { |value, members| assert_equal members, Field.members(value), value.inspect }
  end

  def test_trim
    {
      "" => "", " " => "", "\t \t" => "", "a" => "a", " a" => "a", "a\t" => "a", " \ta b\t " => "a b", "a\n" => "a\n", "\0a\0" => "\0a\0",
      " \xff ".b => "\xff".b
    }.each { |text, trimmed| assert_equal trimmed, Field.trim(text), text.inspect }
    assert_equal 1, Field.trim("#{" " * 500_000}a#{" " * 500_000}").size
    assert_equal 500_002, Field.trim(" a#{" " * 500_000}b ").size
  end

  def test_members_of_a_hostile_text_take_linear_time
    assert_equal 1, Field.members("#{" \t" * 200_000}a").size
    assert_equal 200_000, Field.members("a," * 200_000).size
  end
end
