# frozen_string_literal: true

require "test_helper"
require "neverblock/postgres/classifier"
require "neverblock/postgres/reach"

# Doubts that follow from a snapshot of the catalogue; integration/postgres/reach_test.rb has real ones.
class PostgresReachTest < Minitest::Test
  Reach = NeverBlock::Postgres::Reach
  PROC, REWRITE, CLASS, TYPE, OPERATOR, CAST, TRIGGER, EVENT = %w[1255 2618 1259 1247 2617 2605 2620 3466]
  SLY = [PROC, "20000", nil, nil, "f", nil, "sly", "function sly()"].freeze

  def test_a_catalogue_without_doubts
    reach = Reach.new([[PROC, "20000", nil, nil, "f", nil, "harmless", "function harmless()"]])
    assert_predicate reach, :empty?
    assert_nil doubt(reach, "select * from sales")
  end

  def test_the_way_to_the_function_is_told
    reach = Reach.new([SLY, [REWRITE, "1", PROC, "20000", "f", nil, nil, "rule _RETURN on view inner"], [CLASS, "2", REWRITE, "1", "f", "relation", "inner", "view inner"],
      [REWRITE, "3", CLASS, "2", "f", nil, nil, "rule _RETURN on view outer"], [CLASS, "4", REWRITE, "3", "f", "relation", "outer", "view outer"],
      [REWRITE, "3", CLASS, "4", "f", nil, nil, "rule _RETURN on view outer"]])
    assert_equal "it uses view outer, which uses view inner, which calls function sly(): name that in shareable_functions if it leaves nothing in its session", doubt(reach, "select * from outer")
    built_in = Reach.new([[PROC, "2078", nil, nil, "f", nil, "set_config", "function set_config(text,text,boolean)"], [CLASS, "2", PROC, "2078", "f", "relation", "sales", "view sales"]])
    assert_equal "it uses view sales, which calls function set_config(text,text,boolean)", doubt(built_in, "select * from sales")
  end

  # At any position, since the schema is not known.
  def test_names_of_relations_and_types
    reach = with("relation", CLASS, "sales")
    ["select * from sales", "select * from public.sales", "SELECT * FROM Sales s", %(select * from "sales"), "insert into other select * from sales", "select 'x'::sales", "table sales"].each do |sql|
      assert doubt(reach, sql), sql
    end
    ["select * from sale", %(select * from "Sales"), "select 'sales'", "select sales$ from a", "select $$sales$$"].each { |sql| assert_nil doubt(reach, sql), sql }
    assert doubt(with("relation", CLASS, %(a "b" c)), %(select * from "a ""b"" c"))
    assert doubt(with("relation", CLASS, "n" * 63), "select * from #{"n" * 70}"), "PostgreSQL cuts it"
    assert doubt(with("relation", CLASS, "ä" * 31), "select * from #{"ä" * 32}"), "between characters"
    ["ä" * 50, "ä" * 63].each { |name| assert doubt(with("relation", CLASS, name.encode(Encoding::ISO_8859_1)), "select * from #{"Ä" * name.size}"), "where a character is a byte" }
    assert doubt(with("relation", CLASS, "ä".b), "select * from ä"), "of a database without encoding"
  end

  def test_objects_that_only_writes_reach
    reach = with("written", CLASS, "orders", writes: true)
    assert_nil doubt(reach, "select * from orders")
    ["insert into orders values (1)", "with gone as (delete from orders returning id) select id from gone", "truncate orders", "select id from orders for update"].each { |sql| assert doubt(reach, sql), sql }
  end

  def test_functions_that_look_like_built_in_ones_or_columns
    reach = with("function", PROC, "lower")
    assert doubt(reach, "select lower(1)")
    assert doubt(reach, %(select "lower" (1)))
    assert_nil doubt(reach, "select lower from a")
    reach = with("field", PROC, "total")
    assert doubt(reach, "select orders.total from orders")
    assert doubt(reach, %(select (o)."total" from orders o))
    assert_nil doubt(reach, "select total from orders")
  end

  # A function can be a field of a value that isn't a row only if a function, or an expression, returns that value.
  def test_fields_of_values
    reach = with("scalar", PROC, "price")
    ["select (1).price", "select (a[1])[1].price from b", "select $1.price", "select x.price from generate_series(1, 2) x", "select X.price from generate_series(1, 2) as x",
      "select generate_series.price from generate_series(1, 2)", "select d.price from current_user d", %(select "d".price from current_date as d)].each { |sql| assert doubt(reach, sql), sql }
    ["select orders.price from orders", %(select "o"."price" from "orders" "o" where ("o"."id" = 1) and o.price > 1), "select price from orders"].each { |sql| assert_nil doubt(reach, sql), sql }
  end

  def test_operators
    reach = with("operator", OPERATOR, "=")
    ["select a = 1", "select a=-1", "select a in (1)", "select case a when 1 then 2 end", "select nullif(a, b)", "select * from a join b using (c)", "select a is distinct from b"].each { |sql| assert doubt(reach, sql), sql }
    ["select a + 1", "select '='", "select a like 'b'"].each { |sql| assert_nil doubt(reach, sql), sql }
    assert doubt(with("operator", OPERATOR, "~~"), "select a not like 'b'")
    assert doubt(with("operator", OPERATOR, "<>"), "select a != 1")
    assert doubt(with("operator", OPERATOR, "<="), "select a between 1 and 2")
  end

  def test_a_type_by_its_name_as_text
    reach = with("type", TYPE, "checked")
    assert doubt(reach, "select pg_input_is_valid('a', 'checked')", version: 16)
    assert_nil doubt(with("relation", CLASS, "a"), "select pg_input_is_valid('a', 'checked')", version: 16)
  end

  def test_everything_and_definitions
    reach = with("everything", CAST, "", words: "cast from text to integer")
    assert_equal "it uses cast from text to integer, which calls function sly(): name that in shareable_functions if it leaves nothing in its session", doubt(reach, "select 1")
    assert_nil doubt(with("everything", CAST, nil), "select 1"), "of a user-defined type"
    reach = with("definition", EVENT, "watch")
    assert doubt(reach, "create table a (id int)")
    assert_nil doubt(reach, "insert into a values (1)")
    assert_nil doubt(reach, "select 1")
    assert_equal "why", doubt(Reach.unknown("why"), "select 1")
  end

  # By fingerprint, unless it doesn't cover all of the text.
  def test_verdicts_are_cached
    reach = with("relation", CLASS, "sales")
    first, second = ["select * from sales where id = 1", "select * from sales where id = 2"].map { |sql| doubt(reach, sql) }
    assert_same first, second
    long = "select #{Array.new(400) { |n| "c#{n}" }.join(", ")} from "
    assert_equal [nil, true], [doubt(reach, "#{long} a"), !doubt(reach, "#{long} sales").nil?]
  end

  private

  # @return [Reach] with one object that uses sly()
  def with(kind, of, name, writes: false, words: "it")
    Reach.new([SLY, [of, "1", PROC, "20000", writes ? "t" : "f", kind, name, words]])
  end

  def doubt(reach, sql, version: 15)
    classification = NeverBlock::Postgres::Classifier.new(server_version: version).call(sql)
    refute_equal :session, classification.kind, "#{sql}: #{classification.reason}"
    reach.doubt(sql, classification)
  end
end
