# frozen_string_literal: true

require "test_helper"
require "neverblock/sql/quotes"
require "neverblock/postgres/lexer"
require "neverblock/mysql/lexer"

# The ends of strings and quoted names in both databases' SQL.
class SqlQuotesTest < Minitest::Test
  def test_the_byte_after_the_quote_that_ends_it
    {"'a' b" => 3, "''" => 2, "'it''s'b" => 7, "'''' ''" => 4, "\"é\"\"\" \"" => 6, "'\\'" => 3}.each do |sql, finish|
      assert_equal finish, finish_of(sql), sql
    end
    assert_equal 8, NeverBlock::Sql::Quotes.end_of("N'a' 'b'", 5)
    assert_nil finish_of("'a''")
    assert_nil finish_of("'")
  end

  def test_escaped_quotes
    {"'it\\'s'b" => 7, "'a\\\\'" => 5, "'a\\\\\\'b' " => 8, "'a''\\''" => 7, "'\\\\''" => nil, "'\\'" => nil}.each do |sql, finish|
      finish.nil? ? assert_nil(finish_of(sql, escapes: true), sql) : assert_equal(finish, finish_of(sql, escapes: true), sql)
    end
  end

  # Regression: a regular expression read them by character, for seconds and with 600 MB for 10 MB. A text with such a
  # comment has no shape, so it is read whole.
  def test_long_strings
    long = "line \\\"of\\\" 'text'\\n é" * 20_000
    literal = "'#{long.gsub("'", "''")}'"
    assert_equal ["select", "E#{literal}"], NeverBlock::Postgres::Lexer.tokens("select e#{literal} -- a")
    assert_equal ["select", literal], NeverBlock::Postgres::Lexer.tokens("select #{literal} -- a")
    assert_equal ["select", literal.b], NeverBlock::MySQL::Lexer.new.tokens("select #{literal} -- a")
  end

  private

  def finish_of(sql, **options) = NeverBlock::Sql::Quotes.end_of(sql, 0, **options)
end
