# frozen_string_literal: true

require "test_helper"
require "objspace"
require "neverblock/sql/classification_cache"
require "neverblock/postgres/lexer"
require "neverblock/mysql/lexer"

# Texts have the same shape only if they differ in nothing but literals, by the rules of both databases.
class SqlShapeTest < Minitest::Test
  # The modes in which the server may read a text, by the dialect.
  DIALECTS = {postgres: [nil], mysql: ["", "ANSI_QUOTES"], mysql_plain: ["NO_BACKSLASH_ESCAPES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"]}.freeze
  VALUES = %w[null true false default].freeze
  def test_numbers_and_strings
    assert_equal "select 0 from a where b = '' and c <> 0", shape("select 17 from a where b = 'x y' and c <> 1.25")
    assert_equal "select ''", shape("select 'it''s'")
    assert_equal "select -''", shape("select -1,-2")
    assert_equal "", shape("")
    assert_equal shape("select 'a'"), shape("select 'é'")
  end

  def test_lists_have_the_shape_of_one_literal
    assert_equal "select * from a where b in ('') and c in ('')", shape("select * from a where b in (1, 2 ,3) and c in ('x','y')")
    assert_equal "select 0 , a, ''", shape("select 1 , a, 2, 'b'")
    assert_equal "select ''a", shape("select 1,''a"), "a literal and a name, as before"
    assert_equal "select x'', ''", shape("select x'4D', 1, 2")
    assert_equal "select 0,,0", shape("select 1,,2")
    assert_equal "select 0 0", shape("select 1 2")
    assert_equal "values ('')", shape("values (1, 2), (3, 'a')")
    assert_equal "select * from a where b in ('', c, 0) and d = -0", shape("select * from a where b in (-1, null, 2, c, -3.5) and d = -1")
  end

  # PostgreSQL has escapes in e'' only.
  def test_strings_with_backslashes
    assert_equal "select '', date ''b", shape("select 'C:\\', date '\\'b")
    assert_equal "values ('')", shape("values ('a', e'b\\'c\\n''d', E'\\\\')")
    assert_equal "select date'', ''", shape("select date'\\', e'\\''")
    assert_equal "select ''", shape("select 'it\\'s'", dialect: :mysql)
    assert_equal "select ''", shape("select '\\'", dialect: :mysql_plain)
    assert_nil shape("select '\\'", dialect: :mysql)
    assert_nil shape("select 7e'\\n'"), "its releases read it differently"
    assert_nil shape("select e'a'\n'\\''"), "the string goes on"
    assert_nil shape("select e'\\")
  end

  def test_rows_have_the_shape_of_one_row
    assert_equal "insert into a values ('')", shape("insert into a values (1, 'a'), (2, NULL),(-3, TRUE), (default, 'b')")
    assert_equal "values (0, now(), ''::date)", shape("values (1, now(), 'a'::date), (2, now(), 'b'::date)")
    assert_equal "in (('')) and a", shape("in ((1, 2), (3, 4)) and a")
    assert_equal "values ((0)), ((''))", shape("values ((1)), ((2)), (('a'))")
  end

  # What follows the arguments of a call may be a name, and not a call.
  def test_what_is_no_row_stays
    ["from f(0), (0) g(a)", "in (0), (0)", "values (0) (0)", "values (0),, (0)", "values (0), 0, (0)", "xvalues (0), (0)", "values (0), a, (0)", ") (0), (a))"].each do |sql|
      assert_equal sql, shape(sql)
    end
    assert_equal "f(0), (a)", shape("f(1), (a), (a)")
  end

  def test_parameters_of_lists_are_left_out_on_demand
    sql = "values ($1, $2), ($3, 7) limit $5"
    assert_equal "values ($1, $2), ($3, 0) limit $5", shape(sql)
    assert_equal "values ('') limit $5", shape(sql, parameters: true)
    assert_equal "in ($1)", shape("in ($7)", parameters: true)
  end

  def test_a_long_text_has_a_short_shape
    assert_equal "select ''", shape("select '#{"a" * (2 << 20)}'")
    rows = Array.new(1_000) { |n| "(#{n}, 'it''s #{n}', #{["null", "'x'"][n % 2]}, -#{n})" }
    assert_equal "insert into a values ('')", shape("insert into a values #{rows.join(", ")}")
    assert_operator ObjectSpace.memsize_of(shape("select '#{"a" * (2 << 20)}'")), :<, 2_000
    assert_nil shape("select #{"(" * 100}#{")" * 100}"), "it is too deep"
  end

  def test_what_is_no_literal_stays
    ["select a1, b_2, t.7, $1, 0x1F, 1e5, 5a, @7, a:7, é7 from \"b 5\" where \"it's 5\" = c"].each do |sql|
      assert_equal sql, shape(sql)
    end
    assert_equal "select `a 5` from b", shape("select `a 5` from b", dialect: :mysql)
    assert_equal "select   ''", shape("select /* 5 ' */ 5,/* 6 */7")
    assert_equal "select a #> ''", shape("select a #> 'b'")
  end

  def test_texts_without_a_shape
    ["select 1 -- a", "select 1--1", "select 1 --\x7fa", "select 'a", "select \"a", "select \"a", "select $$a$$", "select $a$b$a$", "select 1 /*! a */",
      "select /*M!1 a */ 1", "select /* /* a */ */ 1", "select /* a", "select a\\b", "select a\0b", "select $", "select 'a\0b'", "select é".encode("ISO-8859-1"),
      "select \xff", "select é".b, "select 1".encode("UTF-16LE")].each do |sql|
      assert_nil shape(sql), sql.inspect
      assert_nil shape(sql, dialect: :mysql), sql.inspect
    end
    assert_equal "select   0", shape("select /*Model.find*/ 5")
    assert_nil shape("select `a`")
    assert_nil shape("select 1 # a", dialect: :mysql)
    assert_raises(TypeError) { shape(nil) }
    assert_raises(ArgumentError) { shape("", dialect: :oracle) }
  end

  # A wrong shape could give a statement that calls a function the classification of one that does not.
  slow "twenty thousand texts"
  def test_a_shape_has_the_tokens_of_its_text
    pieces = ["select", " ", " ", ",", "'", "'", "''", "\"", "`", "/*", "*/", "--", "#", "$1", "$$", "$a$", "1", "2.5", ".5", "1e3", "0x1F", "a", "B2", "é", "@", "@@", ":", "::",
      "(", ")", "values(", "),(", "null", ",-1", "$1,", "\\", "\n", "e'", "E'a'", "x'", "u&'", "n", "get_lock(", "-", "+", "=", "!", "M", ";", "[", "]", "?", "5a", "t.5", "."]
    random = Random.new(seed = Random.new_seed)
    shaped = 0
    20_000.times do
      sql = Array.new(random.rand(1..14)) { pieces.sample(random:) }.join
      DIALECTS.each do |dialect, modes|
        shape = shape(sql, dialect:, parameters: true) or next
        shaped += 1
        note = "#{sql.inspect} as #{shape.inspect}, seed #{seed}"
        modes.each { |mode| assert_equal words(sql, mode), words(shape, mode), note }
        assert_equal shape, shape(shape, dialect:, parameters: true), note
      end
    end
    assert_operator shaped, :>, 1_000
  end

  def test_it_survives_the_garbage_collector
    sql = "select * from a where b in (#{(1..200).to_a.join(", ")}) and c = '#{"x" * 2_000}'"
    GC.stress = true
    assert_equal "select * from a where b in ('') and c = ''", shape(sql)
  ensure
    GC.stress = false
  end

  private

  def shape(sql, dialect: :postgres, parameters: false) = NeverBlock::SqlShape.of(sql, dialect, parameters)

  # The tokens without those that a shape leaves out.
  def words(sql, mode)
    tokens = mode ? NeverBlock::MySQL::Lexer.new(mode).tokens(sql) : NeverBlock::Postgres::Lexer.tokens(sql)
    without_rows(without_literals(tokens))
  rescue NeverBlock::MySQL::Lexer::Unreadable, NeverBlock::Postgres::Lexer::Unreadable
    :unreadable
  end

  # Decimals are three tokens of MySQL's.
  def without_literals(tokens)
    tokens.each_with_index.with_object([]) do |(token, at), words|
      item = ["(", ","].include?(tokens[at - 1]) && at > 0
      next if token == "-" && item && tokens[at + 1]&.match?(/\A\d+/)
      value = item && VALUES.include?(token) && [",", ")"].include?(tokens[at + 1])
      next words << token if !value && !literal?(token)
      next words.pop if words[-1] == "." && words[-2] == "?"
      (words[-1] == "," && words[-2] == "?") ? words.pop : words << "?"
    end
  end

  def literal?(token) = token.match?(/\A(?:['EBXNU$]|\d+\z|[\d.]*\d[\d.]*\z)/)

  # Equal rows, one after the other, are one.
  def without_rows(words)
    starts = []
    words.each_with_object([]) do |word, kept|
      starts << ((kept.empty? || ["(", ",", "values"].include?(kept[-1])) ? kept.size : nil) if word == "("
      kept << word
      next unless word == ")" && (start = starts.pop)
      length = kept.size - start
      kept.pop(length + 1) if start > length && kept[start - 1] == "," && kept[start - 1 - length, length] == kept[start, length] && row?(kept, start - 1 - length)
    end
  end

  def row?(kept, start) = start.zero? || ["(", ",", "values"].include?(kept[start - 1])
end
