# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # SQL given as text, and its results.
    Operations.area("statements") do
      add("execute") { |c| c.execute("SELECT 1 AS a, 'b' AS b") }
      add("execute of a write") { |c| c.execute("UPDATE authors SET age = age WHERE id < 3") }
      add("execute of nothing") { |c| c.execute("") }
      add("execute of a comment") { |c| c.execute("-- nothing") }
      add("exec_query") { |c| c.exec_query("SELECT id, name FROM authors ORDER BY id") }
      add("exec_query of no rows") { |c| c.exec_query("SELECT id, name FROM authors WHERE id = 0") }
      add("exec_query of no columns") { |c| c.exec_query("SELECT FROM authors") }
      add("exec_query of two columns of a name") { |c| c.exec_query("SELECT 1 AS a, 2 AS a") }
      add("exec_query with a name") { |c| c.exec_query("SELECT 1", "Mine") }
      add("exec_query with binds") { |c| c.exec_query("SELECT $1::int + $2::int AS sum", "Sum", [bound("a", 1, :integer), bound("b", 2, :integer)]) }
      add("exec_query with binds, prepared") { |c| c.exec_query("SELECT $1::int + $2::int AS sum", "Sum", [bound("a", 1, :integer), bound("b", 2, :integer)], prepare: true) }
      add("prepared twice") { |c| Array.new(2) { |n| c.exec_query("SELECT $1::text AS t", "Text", [bound("a", "v#{n}", :string)], prepare: true).rows } }
      add("a bind that does not fit") { |c| c.exec_query("SELECT $1::int", "SQL", [bound("a", "x", :string)]) }
      add("a bind that does not fit, prepared") { |c| c.exec_query("SELECT $1::int", "SQL", [bound("a", "x", :string)], prepare: true) }
      add("no binds", differs: {error: :parameters, log: :parameters}) { |c| c.execute("SELECT $1::int") }
      add("too few binds") { |c| c.exec_query("SELECT $1::int, $2::int", "SQL", [bound("a", 1, :integer)]) }
      add("too few binds, prepared", differs: {error: :names, log: :names}) { |c| c.exec_query("SELECT $1::int, $2::int", "SQL", [bound("a", 1, :integer)], prepare: true) }
      add("exec_insert") { |c| c.exec_insert("INSERT INTO seats VALUES (50, 1, 'x')", "Insert", [], %w[row number]) }
      add("exec_update") { |c| c.exec_update("UPDATE seats SET guest = $1 WHERE row = 50", "Update", [bound("guest", "y", :string)]) }
      add("exec_delete") { |c| c.exec_delete("DELETE FROM seats WHERE row = $1", "Delete", [bound("row", 50, :integer)]) }
      add("insert") { |c| c.insert("INSERT INTO authors (name, created_at, updated_at) VALUES ('by insert', '2026-01-01', '2026-01-01')") }
      add("update") { |c| c.update("UPDATE authors SET age = 5 WHERE name = 'by insert'") }
      add("delete") { |c| c.delete("DELETE FROM authors WHERE name = 'by insert'") }
      add("truncate") { |c| c.create_table(:emptied) { |t| t.integer :n } && c.execute("INSERT INTO emptied (n) VALUES (1)") && [c.truncate(:emptied), c.select_value("SELECT count(*) FROM emptied")] }
      add("truncate_tables") { |c| c.truncate_tables(:emptied) }
      add("select_all") { |c| c.select_all("SELECT id, name, age FROM authors ORDER BY id") }
      add("select_one") { |c| c.select_one("SELECT id, mood FROM authors ORDER BY id") }
      add("select_rows") { |c| c.select_rows("SELECT id, tags, details FROM authors ORDER BY id") }
      add("select_values") { |c| c.select_values("SELECT name FROM authors ORDER BY id") }
      add("select_value") { |c| c.select_value("SELECT count(*) FROM authors") }
      add("select_value with binds") { |c| c.select_value("SELECT name FROM authors WHERE id = $1", "Name", [bound("id", 2, :integer)]) }
      add("select_all of Arel") { |c| c.select_all(authors.arel_table.project(Arel.star).where(authors.arel_table[:id].eq(1))) }
      add("query_value") { |c| c.query_value("SELECT 1 + 1") }
      add("query_values") { |c| c.query_values("SELECT generate_series(1, 3)") }
      add("query") { |c| c.query("SELECT 1, true, 'x', 1.5, now() IS NOT NULL, NULL, ARRAY[1,2]") }
      add("raw exec") { |c| c.raw_connection.exec("SELECT 1 AS n").to_a }
      add("raw exec_params") { |c| c.raw_connection.exec_params("SELECT $1::int AS n, $2::text AS t", [1, "x"]).to_a }
      add("raw exec_params in binary") { |c| c.raw_connection.exec_params("SELECT $1::int AS n", [1], 1).getvalue(0, 0) }
      add("raw exec with a block") { |c| c.raw_connection.exec("SELECT 1 AS n") { |result| result.ntuples } }
      add("raw prepare") { |c| c.raw_connection.then { |raw| [raw.prepare("mine", "SELECT $1::int AS n"), raw.exec_prepared("mine", [4]).values, raw.exec("DEALLOCATE mine")] } }
      add("raw prepare twice") { |c| c.raw_connection.then { |raw| [raw.prepare("mine", "SELECT 1"), failure { raw.prepare("mine", "SELECT 2") }.class, raw.exec("DEALLOCATE mine")] } }
      add("raw exec_prepared of none") { |c| failure { c.raw_connection.exec_prepared("none", []) }.class }
      add("raw describe_prepared") { |c| c.raw_connection.then { |raw| raw.prepare("mine", "SELECT $1::int AS n, name FROM authors") && raw.describe_prepared("mine").then { |d| [d.nparams, d.paramtype(0), d.fields] }.tap { raw.exec("DEALLOCATE mine") } } }
      add("raw error") { |c| failure { c.raw_connection.exec("SELECT nonsense") } }
      add("raw transaction") { |c| c.raw_connection.transaction { |raw| raw.exec("SELECT 1").values } }
      add("raw send_query") { |c| c.raw_connection.then { |raw| raw.send_query("SELECT 7") || raw.get_last_result.values } }
      add("raw several results") { |c| c.raw_connection.then { |raw| raw.send_query("SELECT 7; SELECT 8") || [raw.get_result.values, raw.get_result.values, raw.get_result] } }
      add("raw single rows") { |c| c.raw_connection.then { |raw| raw.send_query("SELECT generate_series(1, 3) AS n") || raw.set_single_row_mode.get_result.stream_each.map { |row| row["n"] }.tap { raw.get_last_result } } }
      add("raw escapes") { |c| c.raw_connection.then { |raw| [raw.escape_string("it's"), raw.escape_literal("it's"), raw.escape_identifier("a\"b"), raw.escape_bytea("\0\xff"), raw.unescape_bytea("\\x00ff"), raw.quote_ident("a.b")] } }
      add("raw state") { |c| c.raw_connection.then { |raw| [raw.status, raw.transaction_status, raw.finished?, raw.db, raw.user, raw.parameter_status("TimeZone"), raw.parameter_status("client_encoding"), raw.internal_encoding] } }
      add("several statements") { |c| c.execute("SELECT 1 AS a; SELECT 2 AS b, 3 AS c") }
      add("several statements, the first fails") { |c| c.execute("SELECT nonsense; SELECT 2") }
      add("several statements, the last fails") { |c| c.execute("INSERT INTO seats VALUES (60, 1, 'x'); SELECT nonsense") }
      add("nothing of it") { |c| c.select_value("SELECT count(*) FROM seats WHERE row = 60") }
      add("several statements with a transaction") { |c| c.execute("BEGIN; INSERT INTO seats VALUES (61, 1, 'x'); ROLLBACK") && c.select_value("SELECT count(*) FROM seats WHERE row = 61") }
      add("several statements by exec_query") { |c| c.exec_query("SELECT 1 AS a; SELECT 2 AS b") }
      add("several statements with binds") { |c| c.exec_query("SELECT $1::int; SELECT 2", "SQL", [bound("a", 1, :integer)]) }
      add("execute_batch") { |c| c.send(:execute_batch, ["INSERT INTO seats VALUES (62, 1, 'x')", "DELETE FROM seats WHERE row = 62"], "Batch") }
      add("a query transformer") { |c| ActiveRecord.query_transformers.push(->(sql, _) { "#{sql} /* seen */" }) && c.select_value("SELECT 1").tap { ActiveRecord.query_transformers.pop } }
      add("annotate") { authors.annotate("note").where(id: 1).pluck(:name) }
      add("optimizer_hints") { authors.optimizer_hints("SeqScan(authors)").where(id: 1).pluck(:name) }
      add("explain") { authors.where(name: "Ada").explain("costs off") }
      add("explain analyze") { |c| authors.where(id: 1).explain(:analyze).inspect.lines.size.positive? }
      add("explain of includes") { authors.where(id: [1, 2]).includes(:books).explain("costs off") }
      add("explain of an error") { authors.where("nonsense = 1").explain }
      add("connection.explain") { |c| c.explain(authors.where("id = 1").arel, [], ["COSTS OFF"]) }
      add("while_preventing_writes") { ActiveRecord::Base.while_preventing_writes { authors.create!(name: "never") } }
      add("reads while_preventing_writes") { ActiveRecord::Base.while_preventing_writes { authors.count } }
      each_of(["SHOW server_version_num", "SHOW search_path", "TABLE seats", "VALUES (1, 'a'), (2, 'b')", "SELECT", "SELECT NULL", "SELECT ROW(1, 'a')", "SELECT '{}'::int[]",
        "WITH a AS (SELECT 1 AS n) SELECT * FROM a", "SELECT * FROM generate_series(1, 3) AS n", "SELECT pg_typeof(1), pg_typeof('a'), pg_typeof(1.5)", "SELECT $$dollars$$ AS d", "SELECT E'\\n\\'' AS e",
        "SELECT U&'d\\0061t\\+000061' AS u", "SELECT 1 /* comment; */ AS n -- more", "SELECT current_user, session_user, current_database(), current_schema()", "SELECT 'a'\n'b' AS c", "SELECT B'101', X'1F'",
        "SELECT count(*) FILTER (WHERE id > 1) FROM authors", "SELECT DISTINCT ON (status) status, id FROM books ORDER BY status, id", "SELECT array_agg(id ORDER BY id DESC) FROM authors",
        "SELECT id, rank() OVER (PARTITION BY author_id ORDER BY price DESC) FROM books ORDER BY id", "SELECT author_id, sum(price) FROM books GROUP BY ROLLUP (author_id) ORDER BY author_id",
        "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t", "SELECT a.name, b.title FROM authors a CROSS JOIN LATERAL (SELECT title FROM books WHERE author_id = a.id ORDER BY id LIMIT 1) b ORDER BY a.id",
        "WITH gone AS (DELETE FROM seats WHERE row = 99 RETURNING *) SELECT count(*) FROM gone", "SELECT 1 UNION SELECT 2 ORDER BY 1", "SELECT * FROM (VALUES (1), (2)) AS t (n) OFFSET 1 FETCH FIRST ROW ONLY",
        "SELECT jsonb_path_query_array('[1,2,3]', '$[*] ? (@ > 1)')", "SELECT xmlelement(name a, 'b')", "SELECT extract(year from date '2026-02-03')", "SELECT '2026-01-01'::timestamptz AT TIME ZONE 'Asia/Tokyo'",
        "SELECT to_tsvector('english', 'the cats') @@ to_tsquery('english', 'cat')", "SELECT id FROM books TABLESAMPLE BERNOULLI (100) ORDER BY id LIMIT 1", "SELECT id FROM authors WHERE id = ANY ('{1,2}') ORDER BY id",
        "SELECT 'Ada' ~ '^A', 'Ada' LIKE '%d%', 'Ada' ILIKE 'ADA'", "SELECT coalesce(NULL, 1), nullif(1, 1), greatest(1, 2), CASE WHEN true THEN 'a' ELSE 'b' END"], "select") { |c, sql| c.select_all(sql) }
    end
  end
end
