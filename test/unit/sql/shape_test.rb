# frozen_string_literal: true

require "test_helper"
require "neverblock/sql/classification_cache"
require "neverblock/postgres/lexer"
require "neverblock/mysql/lexer"

# Texts have the same shape only if they differ in nothing but literals, by the rules of both databases.
class SqlShapeTest < Minitest::Test
  def test_numbers_and_strings
    assert_equal "select 0 from a where b = '' and c <> 0", shape("select 17 from a where b = 'x y' and c <> 1.25")
    assert_equal "select ''", shape("select 'it''s'")
    assert_equal "select -0,-0", shape("select -1,-2")
    assert_equal "", shape("")
    assert_equal shape("select 'a'"), shape("select 'é'")
  end

  def test_lists_have_the_shape_of_one_literal
    assert_equal "select * from a where b in (0) and c in ('')", shape("select * from a where b in (1, 2 ,3) and c in ('x','y')")
    assert_equal "select 0 , a, ''", shape("select 1 , a, 2, 'b'")
    assert_equal "select ''a", shape("select 1,''a"), "a literal and a name, as before"
    assert_equal "select x'', 0", shape("select x'4D', 1, 2")
    assert_equal "select 0,,0", shape("select 1,,2")
    assert_equal "select 0 0", shape("select 1 2")
    assert_equal "values (0), ('')", shape("values (1, 2), (3, 'a')")
  end

  def test_what_is_no_literal_stays
    ["select a1, b_2, t.7, $1, 0x1F, 1e5, 5a, @7, a:7, é7 from \"b 5\" where \"it's 5\" = c"].each do |sql|
      assert_equal sql.b, shape(sql)
    end
    assert_equal "select `a 5` from b".b, shape("select `a 5` from b", mysql: true)
    assert_equal "select   0", shape("select /* 5 ' */ 5,/* 6 */7")
    assert_equal "select a #> ''", shape("select a #> 'b'")
  end

  def test_texts_without_a_shape
    ["select 1 -- a", "select 1--1", "select 1 --\x7fa", "select 'a", "select \"a", "select 'a\\'b'", "select \"a\\\"", "select $$a$$", "select $a$b$a$", "select 1 /*! a */",
      "select /*M!1 a */ 1", "select /* /* a */ */ 1", "select /* a", "select a\\b", "select a\0b", "select $", "select 'a\0b'", "select é".encode("ISO-8859-1"),
      "select \xff", "select é".b, "select 1".encode("UTF-16LE")].each do |sql|
      assert_nil shape(sql), sql.inspect
      assert_nil shape(sql, mysql: true), sql.inspect
    end
    assert_nil shape("select '#{"a" * (1 << 20)}'")
    assert_equal "select   0", shape("select /*Model.find*/ 5")
    assert_nil shape("select `a`")
    assert_nil shape("select 1 # a", mysql: true)
    assert_raises(TypeError) { shape(nil) }
  end

  # A wrong shape could give a statement that calls a function the classification of one that does not.
  def test_a_shape_has_the_tokens_of_its_text
    pieces = ["select", " ", " ", ",", "'", "'", "''", "\"", "`", "/*", "*/", "--", "#", "$1", "$$", "$a$", "1", "2.5", ".5", "1e3", "0x1F", "a", "B2", "é", "@", "@@", ":", "::",
      "(", ")", "\\", "\n", "e'", "x'", "u&'", "n", "get_lock(", "-", "+", "=", "!", "M", ";", "[", "]", "?", "5a", "t.5", "."]
    random = Random.new(seed = Random.new_seed)
    shaped = 0
    20_000.times do
      sql = Array.new(random.rand(1..14)) { pieces.sample(random:) }.join
      [false, true].each do |mysql|
        shape = shape(sql, mysql:) or next
        shaped += 1
        assert_equal words(sql, mysql), words(shape.dup.force_encoding(Encoding::UTF_8), mysql), "#{sql.inspect} as #{shape.inspect}, seed #{seed}"
      end
    end
    assert_operator shaped, :>, 1_000
  end

  def test_it_survives_the_garbage_collector
    sql = "select * from a where b in (#{(1..200).to_a.join(", ")}) and c = '#{"x" * 2_000}'"
    GC.stress = true
    assert_equal "select * from a where b in (0) and c = ''", shape(sql)
  ensure
    GC.stress = false
  end

  private

  def shape(sql, mysql: false) = NeverBlock::SqlShape.of(sql, mysql)

  # The tokens that are not literals, in each mode in which the server may read the text.
  def words(sql, mysql)
    return postgres_words(sql) unless mysql
    ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES"].map do |mode|
      without_literals(NeverBlock::MySQL::Lexer.new(mode).tokens(sql))
    rescue NeverBlock::MySQL::Lexer::Unreadable
      :unreadable
    end
  end

  # As PostgreSQL's fingerprint, but for decimals, which are three tokens of MySQL's.
  def without_literals(tokens)
    tokens.each_with_object([]) do |token, words|
      next words << token unless literal?(token)
      next words.pop if words[-1] == "." && words[-2] == "?"
      (words[-1] == "," && words[-2] == "?") ? words.pop : words << "?"
    end
  end

  def literal?(token) = token.match?(/\A(?:'|\d+\z)/)

  def postgres_words(sql)
    NeverBlock::Postgres::Lexer.fingerprint(NeverBlock::Postgres::Lexer.tokens(sql))
  rescue NeverBlock::Postgres::Lexer::Unreadable
    :unreadable
  end
end
