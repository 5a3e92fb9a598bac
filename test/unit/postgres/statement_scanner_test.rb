# frozen_string_literal: true

require "test_helper"
require "neverblock/postgres/lexer"
require "neverblock/postgres/statement_scanner"

# What the scanner finds in the tokens of one statement. The result's use: test/unit/postgres/classifier_test.rb.
class PostgresStatementScannerTest < Minitest::Test
  StatementScanner = NeverBlock::Postgres::StatementScanner
  ALLOWED = {
    **NeverBlock::Postgres::Keywords.listed(18).transform_values { :syntax },
    "lower" => :read, "count" => :read, "nextval" => :write, "pg_notify" => :transactional, "now_of" => :looking, "shop\0total" => :read
  }.freeze

  def test_known_functions_are_free_of_session_state
    ["select lower(name)", "select pg_catalog.lower(name)", "select shop.total(1)", 'select "lower"(name)', "select coalesce(a, lower(b))"].each { |sql| assert_free sql }
  end

  def test_unknown_functions_are_named
    {
      "select price(1)" => /it calls price\(\), which is not known/, "select shop.price(1)" => /shop\.price\(\)/, 'select "Lower"(a)' => /Lower\(\)/,
      "select a.b.lower(1)" => /a\.b\.lower\(\)/, "select setseed(1)" => /leaves or reads session state/, "select lower(price(1))" => /price/
    }.each { |sql, reason| assert_match reason, scan(sql).unsure, sql }
  end

  def test_effects_of_functions
    {
      "select nextval('s')" => [:writes, "it calls nextval"], "select pg_notify('a', 'b')" => [:transactional, "it calls pg_notify"],
      "select now_of()" => [:looks, "it calls now_of(), which looks at its session"]
    }.each do |sql, (reader, words)|
      assert_free sql
      assert_equal words, scan(sql).public_send(reader)
    end
  end

  def test_writes
    {
      "insert into t (a) values (1)" => "INSERT", "update t set a = 1" => "UPDATE", "delete from t" => "DELETE",
      "with w as (delete from t returning a) select * from w" => "DELETE", "select a from t for update" => "row locks (FOR UPDATE)",
      "select a from t for no key update" => "row locks (FOR NO)", "select t.update from t" => nil, "select substring(a for 2)" => nil
    }.each do |sql, expected|
      found = scan(sql).writes
      expected ? assert_equal(expected, found, sql) : assert_nil(found, sql)
    end
  end

  def test_select_into_makes_a_table
    assert_equal "SELECT INTO makes a table", scan("select a into t from u").unsure
    assert_free "insert into t select a from u"
    assert_free "with w as (insert into t (a) values (1) returning a) select a from w"
  end

  # A name before a parenthesis is a call, unless it certainly isn't one.
  def test_names_before_a_parenthesis_that_are_no_calls
    [
      "select * from (values (1)) v (a)", "with w (a) as (select 1) select a from w", "with w as materialized (select 1) select * from w",
      "with w as not materialized (select 1) select * from w", "select count(a) filter (where b) over (partition by c) from t",
      "select a from t group by rollup (a), cube (b)", "select a from t group by grouping sets ((a), (b))", "insert into shop.items (a) values (1)",
      "insert into t (a) values (1) on conflict (a) do nothing", "insert into t (a) values (1) on conflict (a) do update set a = 2",
      "update t set (a, b) = (1, 2)", "select * from json_table(a, 'b' columns (c int)) j", "select 1 operator(pg_catalog.+) 2"
    ].each { |sql| assert_free sql }
  end

  def test_the_same_names_elsewhere_are_calls
    {
      "select rollup (a)" => /rollup/, "select conflict (a)" => /conflict/, "select a, set (b)" => /set\(\)/, "select 1 operator(shop.+) 2" => /operator/,
      "select columns (a)" => /columns/, "select materialized (a)" => /materialized/
    }.each { |sql, reason| assert_match reason, scan(sql).unsure.to_s, sql }
  end

  def test_on_conflict_is_counted
    assert_match(/ON CONFLICT that is not understood/, scan("insert into t (a) values (1) on conflict (a)").unsure)
  end

  def test_parentheses_must_match
    ["select lower(a", "select a)", "select (a))"].each { |sql| assert_equal "its parentheses don't match", scan(sql).unsure, sql }
  end

  def test_set_config_until_the_transaction_s_end
    scanner = scan("select set_config('app.tenant', $1, true)")
    assert_equal ["app.tenant", "set_config(…, true)", nil, nil], [scanner.setting, scanner.transactional, scanner.session_setting, scanner.unsure]
  end

  def test_set_config_of_several_settings
    scanner = scan("select set_config('a.b', 'x', true), set_config('search_path', 'y', true)")
    assert_equal "search_path", scanner.setting, "it decides what a text means"
  end

  def test_set_config_of_the_session
    scanner = scan("select set_config('App.Tenant', $1, false)")
    assert_equal "app.tenant", scanner.session_setting
    assert_match(/set_config/, scanner.unsure)
    ["select set_config($1, $2, false)", "select set_config('seed', '1', false)", "select set_config('a', 'b', $1)", "select set_config('a', 'b')",
      "select set_config('a', 'b', false), set_config('c', 'd', false)", "select set_config('a', 'b', false), nextval('s')"].each do |sql|
      assert_nil scan(sql).session_setting, sql
      refute_nil scan(sql).unsure, sql
    end
  end

  def test_names_of_session_state
    {"select * from pg_temp.t" => "pg_temp", "select * from pg_settings" => "pg_settings", 'select * from "pg_cursors"' => '"pg_cursors"', "select * from pg_temp_3.t" => "pg_temp_3"}.each do |sql, name|
      assert_equal "it names #{name}, which belongs to the session", scan(sql).unsure, sql
    end
    assert_free "select * from pg_class"
    assert_nil StatementScanner.session_name(%w[select a from pg_class])
  end

  # `(x).f` calls any function with one argument.
  def test_an_attribute_may_be_a_call
    assert_match(/setseed/, scan("select (t).setseed from t").unsure.to_s)
    assert_free "select (t).name from t"
  end

  def test_currval
    assert StatementScanner.currval?(%w[select currval ( 's' )])
    assert StatementScanner.currval?(%w[select pg_catalog . lastval ( )])
    refute StatementScanner.currval?(%w[select currval from t])
  end

  def test_definitions
    assert_free "create index i on t (lower(a))", definition: :index
    assert_match(/price/, scan("create index i on t (price(a))", definition: :index).unsure)
    assert_free "create table t (a int, exclude using gist (a with =)) partition by range (a)", definition: :table
    assert_free "alter table t alter a set (n_distinct = 5), alter b reset (n_distinct)", definition: :alter
    assert_match(/gist/, scan("alter table t alter a type exclude using gist (a)", definition: :alter).unsure)
  end

  private

  def scan(sql, definition: nil, **more)
    StatementScanner.new(NeverBlock::Postgres::Lexer.tokens(sql), {**ALLOWED, **more.transform_keys(&:to_s)}, definition:)
  end

  def assert_free(sql, **options)
    assert_nil scan(sql, **options).unsure, sql
  end
end
