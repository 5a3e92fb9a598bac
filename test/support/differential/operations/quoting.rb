# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # How values and names are written into SQL.
    Operations.area("quoting") do
      each_of([nil, true, false, 1, -5, 2**70, 1.5, Float::NAN, Float::INFINITY, 1.5r, BigDecimal("12.50"), "", "it's", "back\\slash", "Ünï", "\0", :sym, Date.new(2024, 2, 29), Time.utc(2026, 1, 2, 3, 4, 5.678r), "\xff".b, "a\nb", ActiveSupport::Duration.build(3_600)],
        "quote") { |c, value| [c.quote(value), failure { c.type_cast(value) }, c.select_value("SELECT #{c.quote(value)}")] }
      each_of([["a"], {a: 1}, Object, 1..2], "quote of what can't be") { |c, value| c.quote(value) }
      each_of(["a", "A b", "a\"b", "a.b", "a.b.c", "\"a.b\".c", "日本"], "quote_table_name") { |c, name| [c.quote_table_name(name), c.quote_column_name(name), c.quote_schema_name(name), c.quote_table_name_for_assignment("t", name)] }
      add("quote_string") { |c| c.quote_string("it's \\ \"x\"") }
      add("quote_bound_value") { |c| [c.cast_bound_value(1), c.cast_bound_value("x")] }
      add("escape_bytea") { |c| [c.escape_bytea("\0\xff'".b), c.unescape_bytea("\\x00ff27"), c.escape_bytea(nil)] }
      add("quoted_date") { |c| [c.quoted_date(Time.utc(2026, 1, 2, 3, 4, 5.6r)), c.quoted_date(Date.new(-43, 3, 15))] }
      add("quoted_true") { |c| [c.quoted_true, c.quoted_false, c.unquoted_true] }
      add("quote_default_expression") { |c| c.columns("authors").map { |column| c.quote_default_expression(column.default, column) } }
      add("sanitize_sql") { [authors.sanitize_sql_array(["name = ? AND age IN (?)", "it's", [1, 2]]), authors.sanitize_sql_array(["name = :n", {n: "x"}]), authors.sanitize_sql_like("50%_")] }
      add("sanitize_sql of too few") { authors.where("a = ? AND b = ?", 1).to_a }
      add("bytes in a string column") { authors.where(name: "\xff".b).to_a }
      add("text that is no UTF-8") { |c| c.select_value("SELECT '\xff'") }
      add("text in Latin 1") { |c| c.select_value("SELECT 'Ü'".encode(Encoding::ISO_8859_1)) }
      add("a byte zero in SQL") { |c| c.select_value("SELECT 'a\0b'") }
      add("a byte zero in a bind") { authors.where(name: "a\0b").to_a }
      add("a long statement") { |c| c.select_value("SELECT length(#{c.quote("x" * 50_000)})") }
      add("many binds") { authors.where(id: (1..1_000).to_a).count }
      add("a table with quotes") { |c| c.create_table("We ird-t") { |t| t.string 'we"ird c' } && c.execute("INSERT INTO #{c.quote_table_name("We ird-t")} DEFAULT VALUES") && [c.columns("We ird-t").map(&:name), c.drop_table("We ird-t")] }
    end
  end
end
