# frozen_string_literal: true

# engines: one - it reads texts

require "test_helper"
require "neverblock/mysql/escape"

# As the driver's own, which test/integration/mysql_test.rb compares.
class MySQLEscapeTest < Minitest::Test
  Escape = NeverBlock::MySQL::Escape

  def test_special_bytes
    assert_equal %q(it\'s \"a\" \\\\ \n \r \0 \Z é), Escape.call("it's \"a\" \\ \n \r \0 \x1a é")
    assert_equal %q(it''s "a" \\), Escape.call("it's \"a\" \\", plain_backslashes: true)
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
