# frozen_string_literal: true

require "test_helper"
require "neverblock/mysql/lexer"

# Strings, names and comments are where the server takes them to be, in each sql_mode.
class MySQLLexerTest < Minitest::Test
  Lexer = NeverBlock::MySQL::Lexer

  def test_words_are_folded_and_comments_dropped
    assert_equal ["select", "`Name`", ",", "1", "from", "users"], tokens("SELECT `Name`, /* a ' b */ 1 -- c '\nFROM Users # d '")
    assert_equal ["select", "1", "-", "-", "1"], tokens("select 1--1"), "-- without a blank is no comment"
    assert_equal ["select"], tokens("select --"), "the end is a blank"
    assert_equal ["select", "1", ",", "2"], tokens("select 1 --\x7f'\n, 2 -- '"), "and so is each control character"
  end

  def test_strings
    assert_equal [%('it''s'), %('a\\'b'), %("c\\"d""e"), "'\n'"], tokens(%('it''s' 'a\\'b' "c\\"d""e" '\n'))
    assert_equal ["'a\\'", "b"], tokens("'a\\' b", "NO_BACKSLASH_ESCAPES")
    assert_equal ["`a``b`", "'`'"], tokens("`a``b` '`'")
  end

  def test_ansi_quotes_make_names
    lexer = Lexer.new("ANSI_QUOTES,STRICT_ALL_TABLES")
    assert_equal [%("Get_Lock"), "("], lexer.tokens('"Get_Lock"(')
    assert lexer.name?(%("x"))
    assert_equal "get_lock", lexer.unquoted(%("Get_Lock"))
    refute Lexer.new.name?(%("x"))
    assert_equal [%("a\\"), "b"], lexer.tokens(%("a\\" b)), "a backslash is one in names"
  end

  def test_variables
    assert_equal ["@", "x", ":=", "@@", "session", ".", "y", "@", "`z`"], tokens("@x := @@session.y @`z`")
  end

  def test_names_that_begin_with_digits
    assert_equal ["1now", "(", ")"], tokens("1now()")
  end

  def test_a_word_after_null
    assert_equal ["select", "\\N", "into", "@", "x"], tokens("select \\Ninto @x")
  end

  def test_other_encodings_and_broken_bytes
    assert_equal ["'\xff'".b], tokens("'\xff'")
    assert_equal ["'\xff'".b], tokens("'\xff'".b)
    assert_equal ["select", "1"], tokens("select 1".encode("Shift_JIS"))
    unreadable("select 'ソ'".encode("Shift_JIS"), /Shift_JIS/)
  end

  def test_what_can_not_be_read
    unreadable("select /*! get_lock('a', 1) */ 1", /executes/)
    unreadable("select /*M!100100 get_lock('a', 1) */ 1", /executes/)
    unreadable("select 'a", /string/)
    unreadable("select `a", /name/)
    unreadable("select /* a", /comment/)
    unreadable("select \0", /zero byte/)
    assert_equal ["select", "1"], tokens("select /*+ MAX_EXECUTION_TIME(1000) */ 1"), "a hint lasts for its statement"
  end

  private

  def tokens(sql, mode = "") = Lexer.new(mode).tokens(sql)

  def unreadable(sql, message)
    assert_match message, assert_raises(Lexer::Unreadable) { tokens(sql) }.message
  end
end
