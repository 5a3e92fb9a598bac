# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("statements") do
  each_of(["1", "-1", "1.5", "1e3", "'x'", "null", "true", "x'ff00'", "b'101'", "_utf8mb4'é'", "date '2026-01-02'", "time '01:02:03'",
    "timestamp '2026-01-02 03:04:05'", "'it''s'", "'a\\\\b'", "'a\\'b'", "\"quoted\"", "cast(1.50 as decimal(9,2))", "18446744073709551615",
    "-9223372036854775808", "json_object('a', 1)", "concat('a', null)", "'' = ' '", "1/3", "1 div 3", "convert('x' using latin1)"], "literal") do |c, text|
    c.select_value("select #{text}")
  end

  each_of(["it's", "a\\b", "a\"b", "a\nb\rc\0d\x1ae", "é漢字🎉", "", "%_", "\xff\xfe".b, 1, -2.5, 1e20, nil, true, false, :word, Date.new(2026, 1, 2),
    Time.utc(2026, 1, 2, 3, 4, 5, 678_900), BigDecimal("1.50"), 12345678901234567890], "quoted") do |c, value|
    [c.quote(value), c.select_value("select #{c.quote(value)}")]
  end

  add("execute") { |c| c.execute("select 1 as a, 'b' as b") }
  add("execute an insert") { |c| c.execute("insert into watched (n) values (1)") }
  add("select_all") { |c| c.select_all("select id, name from authors order by id") }
  add("select_one") { |c| c.select_one("select id, name from authors order by id") }
  add("select_rows") { |c| c.select_rows("select id, name from authors order by id") }
  add("select_values") { |c| c.select_values("select name from authors order by id") }
  add("select_all with binds", only: "trilogy") { |c| c.select_all("select 1 + ?", "SQL", [1]) }
  add("exec_query") { |c| c.exec_query("select name from authors where id = 1") }
  add("exec_query of an update") { |c| c.exec_query("update watched set n = 2") }
  add("insert") { |c| c.insert("insert into watched (n) values (2)").class }
  add("insert without an id") { |c| c.insert("insert into watched (id, n) values (1000, 2)") }
  add("insert of two rows") { |c| c.exec_insert("insert into watched (n) values (3), (4)", "SQL", []).class }
  add("update") { |c| c.update("update books set price = price where id < 4") }
  add("update of what is equal") { |c| c.update("update authors set age = 30 where id = 1") }
  add("delete") { |c| c.delete("delete from watched where n = 99") }
  add("truncate") { |c| c.truncate("watched") }
  add("insert_fixture") { |c| c.insert_fixture({"n" => 5}, "watched") }
  add("insert_fixtures_set") { |c| c.insert_fixtures_set({"watched" => [{"n" => 5}, {"n" => 6}]}, ["watched"]) && c.select_values("select n from watched order by n") }
  add("an empty result") { |c| c.select_all("select id from authors where false") }
  add("columns of the same name") { |c| c.select_all("select 1 as a, 2 as a") }
  add("a comment") { |c| c.select_value("/* a */ select 1 -- b\n # c\n + 1") }
  add("a comment that the server executes") { |c| c.select_value("select 1 /*! + 1 */") }
  add("a semicolon") { |c| c.select_value("select 1;") }
  add("two statements") { |c| c.execute("select 1; select 2") }
  add("nothing") { |c| c.execute("") }
  add("only a comment") { |c| c.execute("-- nothing") }
  add("to_sql") { |c| c.to_sql(authors.where(name: "it's").arel) }
  add("raw_connection") { |c| c.raw_connection.query("select 1 as a") }
  add("raw last_insert_id", only: "trilogy") { |c| c.raw_connection.query("insert into watched (n) values (7)") && [c.raw_connection.last_insert_id.class, c.raw_connection.affected_rows] }
  add("raw query_with_flags", only: "trilogy") { |c| c.raw_connection.query_with_flags("select 1, 2", Trilogy::QUERY_FLAGS_FLATTEN_ROWS) }
  add("raw last_id", only: "mysql2") { |c| [c.raw_connection.query("insert into watched (n) values (7)"), c.raw_connection.last_id.class, c.raw_connection.affected_rows] }
  add("raw ping", only: "mysql2") { |c| c.raw_connection.ping }
  add("raw results, one by one", only: "mysql2") { |c| [c.raw_connection.query("select 1 as a").to_a, c.raw_connection.more_results?, c.raw_connection.next_result] }
  add("raw query with options", only: "mysql2") { |c| c.raw_connection.query("select 1 as a, true as b", as: :hash, symbolize_keys: true).to_a }
  add("raw escape") { |c| c.raw_connection.escape("it's \\ \"") }
  add("raw server_info") { |c| c.raw_connection.server_info }
  add("raw select_db") { |c| [c.raw_connection.select_db("information_schema"), c.select_value("select database()")] }
  add("raw change_db", only: "trilogy") { |c| [c.raw_connection.change_db("information_schema"), c.select_value("select database()")] }
  add("explain") { |c| c.explain(authors.where(id: 1).arel).class }
  add("show") { |c| c.select_rows("show tables") }
  add("describe") { |c| c.select_all("describe authors") }
  add("show create table") { |c| c.select_rows("show create table watched").size }
  add("values") { |c| c.select_rows("values (1, 2), (3, 4)") }
  add("a cte") { |c| c.select_values("with recursive a(n) as (select 1 union all select n + 1 from a where n < 4) select n from a") }
  add("union") { |c| c.select_values("(select 1) union (select 2) order by 1 desc") }
  add("a long text") { |c| c.select_value("select length('#{"x" * 100_000}')") }
  add("a large result") { |c| c.select_value("select repeat('é', 500000)").size }
  add("many rows") { |c| c.select_values("with recursive a(n) as (select 1 union all select n + 1 from a where n < 900) select n from a").sum }
  add("returning") { |c| c.select_rows("insert into watched (n) values (8), (9) returning n") }
  add("insert select") { |c| c.update("insert into watched (n) select id from authors") }
  add("replace") { |c| c.update("replace into watched (id, n) values (1, 1)") }
  add("on duplicate key") { |c| c.update("insert into watched (id, n) values (1, 1) on duplicate key update n = values(n) + 1") }
end
