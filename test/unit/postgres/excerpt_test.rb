# frozen_string_literal: true

require "test_helper"
require "neverblock/postgres/excerpt"

# What messages and the log show of a statement, whose text may be of any bytes, encoding and length.
class PostgresExcerptTest < Minitest::Test
  def test_it_is_one_line_of_utf_8
    texts = ["select 'é'\n  from t", "select 'é'\n\tfrom t".b, *%w[UTF-16LE UTF-16 UTF-32BE ISO-8859-1].map { |name| "select 'é' from t".encode(name) }]
    texts.each { |text| assert_equal "select 'é' from t", excerpt(text.freeze), text.encoding }
  end

  def test_what_is_no_character_is_replaced
    assert_equal ["a?", "a?", "a?", "?"], ["a\xFF", "a\xFF".b, "a\xFF".dup.force_encoding("US-ASCII"), "\x00\xD8".dup.force_encoding("UTF-16LE")].map { |text| excerpt(text) }
    assert_equal "ab", excerpt("ab".dup.force_encoding("UTF-7")), "an encoding that Ruby can't convert"
  end

  def test_it_is_cut
    assert_equal ["é" * 200, "é" * 200, ""], ["é" * 900, ("é" * 900).b, nil].map { |text| excerpt(text) }
  end

  private

  def excerpt(text)
    NeverBlock::Postgres::Excerpt.of(text).tap { |excerpt| assert_equal [Encoding::UTF_8, true], [excerpt.encoding, excerpt.valid_encoding?] }
  end
end
