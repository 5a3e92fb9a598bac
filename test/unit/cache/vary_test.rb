# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §12.5.5, RFC 9111 §4.1.
class CacheVaryTest < Minitest::Test
  Vary = NeverBlock::Cache::Vary

  def test_names
    {
      nil => [], "" => [], [] => [], "," => [], "Accept" => %w[accept], "Foo, BAR ,, baz" => %w[bar baz foo],
      %w[Foo Bar] => %w[bar foo], "foo, Foo, FOO" => %w[foo], (1..16).map { |number| "n#{number}" }.join(",") => (1..16).map { |number| "n#{number}" }.sort
    }.each do |field, names|
      vary = Vary.new(field)
      assert_equal names, vary.names, field.inspect
      assert_equal names.empty?, vary.empty?
      refute_predicate vary, :any?
    end
  end

  def test_anything
    [
      "*", "*, *", ["*", "*"], ", *", ["", "*"], "*, Foo", "Foo, *", "foo bar", "foo;bar", "foo:", "\"foo\"", "fo\xff", "foé", "foo\nbar",
      "foo\x00", (1..17).map { |number| "n#{number}" }.join(","), "a," * 3_000, "a" * 5_000
    ].each do |field|
      vary = Vary.new(field)
      assert_predicate vary, :any?, field.inspect[0, 60]
      refute_predicate vary, :empty?
      assert_empty vary.names
    end
  end

  def test_no_request_has_the_values_of_anything
    vary = Vary.new("*")
    refute_equal vary.values({}), vary.values({})
    refute_equal Vary.new(nil).values({}), vary.values({})
  end

  def test_credentials
    ["Cookie", "accept, AUTHORIZATION"].each { |field| assert_predicate Vary.new(field), :credentials? }
    [nil, "*", "accept, x-cookie"].each { |field| refute_predicate Vary.new(field), :credentials? }
  end

  # Values of two requests that match.
  SAME = [
    ["1", "1"], ["1", " 1\t"], ["1,2", " 1, 2 "], ["1 ,\t2", "1, 2"], ["a b, c", "a b,c"], ["é", "é".b], [nil, nil]
  ].freeze
  # And that don't.
  DIFFERENT = [
    ["1", "2"], [nil, ""], [nil, "1"], ["1", "1,"], ["1, 2", "2, 1"], ["a", "A"], ["a b", "a  b"], ["1,2", "12"], ["1,,2", "1,2"],
    ['"a , b"', '"a, b"'], ["(a, b)", "(a,b)"], ["a\\ , b", "a\\,b"], ["é", "e"], ["\xff", "\xfe"]
  ].freeze

  def test_requests_that_match
    SAME.each { |one, other| assert_equal values("foo", one), values("foo", other), [one, other].inspect }
  end

  def test_requests_that_do_not_match
    DIFFERENT.each { |one, other| refute_equal values("foo", one), values("foo", other), [one, other].inspect }
  end

  # RFC 4647 §2. Their order may tell what is preferred.
  def test_languages
    assert_equal values("accept-language", "en-GB, de"), values("accept-language", " EN-gb ,De")
    refute_equal values("accept-language", "en, de"), values("accept-language", "de, en")
    refute_equal values("accept-language", "en"), values("accept-language", "de")
  end

  def test_fields_that_are_no_lists_stay
    %w[user-agent cookie referer authorization].each { |name| refute_equal values(name, "a, b"), values(name, "a,b"), name }
    assert_equal values("user-agent", " a, b "), values("user-agent", "a, b")
  end

  def test_values_have_names_and_are_frozen
    values = Vary.new("X-Foo, Content-Type, Accept").values({"HTTP_X_FOO" => "1, 2", "CONTENT_TYPE" => "a/b", "HTTP_CONTENT_TYPE" => "no"})
    assert_equal [["accept", nil], ["content-type", "a/b"], ["x-foo", "1,2"]], values
    assert Ractor.shareable?(values)
    assert_equal [], Vary.new(nil).values({"HTTP_X_FOO" => "1"})
  end

  def test_encodings_share_values
    assert_equal values("accept-encoding", "gzip, br"), values("accept-encoding", "br;q=0.5,gzip")
    assert_equal [["accept-encoding", "gzip"]], Vary.new("Accept-Encoding").values({"HTTP_ACCEPT_ENCODING" => "br, gzip"}, codings: ["gzip"])
    refute_equal values("accept-encoding", nil), values("accept-encoding", "")
  end

  def test_the_value_of_the_request_is_not_changed
    value = +" a, b "
    values("foo", value)
    values("accept-encoding", value)
    refute_predicate value, :frozen?
    assert_equal " a, b ", value
  end

  def test_equality
    assert_equal Vary.new("a, b"), Vary.new("B,A")
    assert_equal Vary.new("a, b").hash, Vary.new("B,A").hash
    assert_equal Vary.new(nil), Vary.new("")
    refute_equal Vary.new("a"), Vary.new("a, b")
    refute_equal Vary.new("*"), Vary.new("*")
    refute_equal Vary.new("*"), Vary.new(nil)
    refute_equal Vary.new(nil), Vary.new("*")
    refute_equal Vary.new(nil), nil
  end

  private

  def values(name, value) = Vary.new(name).values({"HTTP_#{name.upcase.tr("-", "_")}" => value})
end
