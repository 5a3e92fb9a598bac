# frozen_string_literal: true

require "test_helper"
require "neverblock/postgres/lexer"

# The tokens of PostgreSQL's scanner (its src/backend/parser/scan.l), with standard_conforming_strings on.
class PostgresLexerTest < Minitest::Test
  Lexer = NeverBlock::Postgres::Lexer

  def self.reads(what, sql, *tokens)
    define_method(:"test_reads_#{what.gsub(/\W+/, "_")}") { assert_equal tokens, Lexer.tokens(sql), sql }
  end

  def self.refuses(what, sql, message)
    define_method(:"test_refuses_#{what.gsub(/\W+/, "_")}") do
      error = assert_raises(Lexer::Unreadable, sql.inspect) { Lexer.tokens(sql) }
      assert_match message, error.message
    end
  end

  reads "nothing", ""
  reads "blanks of all kinds", " \t\n\r\f\v"
  reads "words, folded", "SELECT a_B, $1 FROM Çà", "select", "a_b", ",", "$1", "from", "Çà"
  reads "a dollar inside a name", "a$b$c$$d", "a$b$c$$d"
  reads "names right after each other's quotes", %("a""b"c"d"), %("a""b"), "c", %("d")
  reads "punctuation", "a(b,c)[d];e.f", "a", "(", "b", ",", "c", ")", "[", "d", "]", ";", "e", ".", "f"
  reads "casts and colons", "a::int[1:2] :=", "a", "::", "int", "[", "1", ":", "2", "]", ":="
  reads "operators", "a->>'b' @> c || -1 ?& d", "a", "->>", "'b'", "@>", "c", "||", "-", "1", "?&", "d"
  reads "an operator that ends at a comment", "1+--2\n3 */* 4 */5", "1", "+", "3", "*", "5"

  reads "numbers", "1 2.5 .5 3. 1e5 1.5E-3 0x1F 0b101 0o17 1_000.5", *%w[1 2.5 .5 3. 1e5 1.5E-3 0x1F 0b101 0o17 1_000.5]
  reads "a range of numbers", "1..10", "1", "..", "10"
  reads "a word right after a number", "1union 2e 0xg 3_", *%w[1 union 2 e 0 xg 3 _]

  reads "a string", "'a''b'", "'a''b'"
  reads "an empty string", "''", "''"
  reads "a backslash that is no escape", %q('\' || 'a'), %q('\'), "||", "'a'"
  reads "what looks like comments in strings", "'/*' '--' \"/*\" \"--\"", "'/*'", "'--'", '"/*"', '"--"'
  reads "line breaks in a string", "'a\nb'", "'a\nb'"
  reads "escapes", %q(e'\'' E'a\\\\' E'it''s'), %q(E'\''), "E'a\\\\'", "E'it''s'"
  reads "escapes in a string that goes on after a line break", "E'a'" + "\n " + %q('b\'c' d), "E'a'" + "\n " + %q('b\'c'), "d"
  reads "escapes in a string that goes on after a comment", "E'a'" + " -- x\n -- y\n" + %q('\'; d' e), "E'a'" + " -- x\n -- y\n" + %q('\'; d'), "e"
  reads "a string on the same line, which does not go on", "E'a' 'b\\' c", "E'a'", "'b\\'", "c"
  reads "bits and bytes", "b'01' X'1F' n'a'", "B'01'", "X'1F'", "N'a'"
  reads "a string of code points", "u&'d\\0061' UESCAPE '!'", "U&'d\\0061'", "uescape", "'!'"
  reads "a word that ends like the start of such a string", "the'a' xe'b'", "the", "'a'", "xe", "'b'"
  reads "an u that is a name", "u&1 u& 'a' u", "u", "&", "1", "u", "&", "'a'", "u"

  reads "a dollar-quoted string", "$$it's$$", "$$it's$$"
  reads "a dollar-quoted string with a tag", "$a$ $$ $b$ ; $a$ x", "$a$ $$ $b$ ; $a$", "x"
  reads "tags that overlap", "$b$$a$b$ x", "$b$$a$b$", "x"
  reads "parameters", "$1+$22", "$1", "+", "$22"
  reads "a tag in another language", "$é$'$é$", "$é$'$é$"

  reads "a comment to the end of the line", "a --b'\nc", "a", "c"
  reads "a comment to the end of the line of old", "a --b'\rc", "a", "c"
  reads "a comment to the end of the text", "a --b", "a"
  reads "a comment", "a/* ' \" $$ ; */b", "a", "b"
  reads "nested comments", "a /* /* */ b /* c */ */ d", "a", "d"
  reads "stars and slashes in comments", "a /**/ b /***/ c /*/ */ d /* **/ e", *%w[a b c d e]
  reads "no comment at the end of one", "/* -- */ a", "a"

  refuses "an unterminated string", "select 'a", /a string in it does not end/
  refuses "an escape at the end of a string", %q(select E'a\'), /a string/
  refuses "an unterminated second part of a string with escapes", "select E'a'\n'b\\'", /a string/
  refuses "an unterminated quoted name", 'select "a', /a quoted name/
  refuses "an unterminated comment", "select /* /* */", /a comment/
  refuses "an unterminated dollar-quoted string", "select $a$ $$", /a string after \$a\$/
  refuses "a lone dollar", "select $", /a \$/
  refuses "a lone backslash", "select \\d", /byte 0x5c/
  refuses "a NUL", "select 1\0", /byte 0x00/
  refuses "a name with escapes", 'select U&"\0061"', /name with escapes/
  refuses "bytes that are no text", "select '\xFF'", /not valid UTF-8/
  refuses "bytes that are no text, as bytes", "select '\xFF'".b, /not valid UTF-8/
  refuses "an encoding in which a quote may be half of a character", "select '表'".encode("Shift_JIS"), /Shift_JIS/
  refuses "an encoding of wide characters", "select 1".encode("UTF-16LE"), /UTF-16LE/

  def test_reads_texts_of_other_encodings_that_are_plain
    assert_equal %w[select 1], Lexer.tokens("select 1".encode("Shift_JIS"))
    assert_equal %w[select 'é'], Lexer.tokens("select 'é'".b)
    assert_equal %w[select 1], Lexer.tokens((+"select 1").force_encoding("US-ASCII"))
  end

  def test_leaves_the_text_alone
    sql = +"SELECT E'A' FROM B"
    Lexer.tokens(sql)
    assert_equal "SELECT E'A' FROM B", sql
  end

  def test_a_long_string_takes_no_time
    sql = "select '#{"it''s " * 200_000}', E'#{"\\n" * 200_000}', $$#{"$ " * 200_000}$$ /*#{"*" * 200_000}*/"
    assert_equal 6, Lexer.tokens(sql).size
  end

  def test_a_fingerprint_has_no_values
    same = ["SELECT * FROM a WHERE b IN (1, 2) AND c = 'x' -- who", "select * from a where b in ($1) and c = $$y$$",
      "select  *\nfrom a where b in (1,2,3) and c=E'\\n'"]
    assert_equal ["select * from a where b in ( ? ) and c = ?"], same.map { |sql| Lexer.fingerprint(Lexer.tokens(sql)) }.uniq
  end

  def test_a_fingerprint_is_short
    assert_operator Lexer.fingerprint(Lexer.tokens("select #{(["a"] * 10_000).join(",")}")).size, :<, 2_000
  end
end
