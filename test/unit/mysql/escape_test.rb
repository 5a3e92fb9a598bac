# frozen_string_literal: true

require "test_helper"
require "neverblock/mysql/escape"

# As the driver's own, which test/integration/mysql_test.rb compares.
class MySQLEscapeTest < Minitest::Test
  Escape = NeverBlock::MySQL::Escape

  def test_special_bytes
    assert_equal %q(it\'s \"a\" \\\\ \n \r \0 \Z é), Escape.call("it's \"a\" \\ \n \r \0 \x1a é")
    assert_equal %q(it''s "a" \\), Escape.call("it's \"a\" \\", plain_backslashes: true)
  end

  # A byte of a character may look like a backslash, or take the backslash before a quote for its other half.
  def test_characters_of_two_bytes
    [[Encoding::GBK, "誠'", "\xD5\x5C\\'"], [Encoding::Windows_31J, "ソ'", "\x83\x5C\\'"], [Encoding::Big5, "功\\", "\xA5\x5C\\\\"]].each do |encoding, text, escaped|
      assert_equal escaped.b, Escape.call(text, encoding:).b
      assert_equal escaped.b, Escape.call(text.encode(encoding).b, encoding:).b
      assert_equal encoding, Escape.call(text, encoding:).encoding
      assert_match(/not valid #{encoding}/, assert_raises(EncodingError) { Escape.call("\xBF'".b, encoding:) }.message) unless encoding == Encoding::Windows_31J
    end
    assert_equal "\x83\x5C''".b, Escape.call("ソ'", encoding: Encoding::Windows_31J, plain_backslashes: true).b
    assert_equal "\xE9\\'".b, Escape.call("é'", encoding: Encoding::ISO_8859_1).b
  end

  def test_the_encoding_stays
    assert_equal Encoding::BINARY, Escape.call("\xff'".b).encoding
    assert_equal Encoding::UTF_8, Escape.call("é'").encoding
    assert_equal "\xff\\'", Escape.call("\xff'")
    assert_equal Encoding::UTF_8, Escape.call("\xff'".b, encoding: Encoding::UTF_8).encoding
    assert_equal "é\\'", Escape.call("é'".encode("ISO-8859-1"), encoding: Encoding::UTF_8)
    assert_raises(Encoding::CompatibilityError) { Escape.call("a".encode("UTF-16LE")) }
  end
end
