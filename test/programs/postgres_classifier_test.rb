# frozen_string_literal: true

require "test_helper"
require "neverblock/postgres/classifier"
require "support/postgres"

# The classifier's lists, and its assumptions about SQL's grammar, compared with a PostgreSQL.
class PostgresClassifierProgramTest < Minitest::Test
  Functions = NeverBlock::Postgres::Functions
  Keywords = NeverBlock::Postgres::Keywords
  Classifier = NeverBlock::Postgres::Classifier

  def setup
    reason = NeverBlockTest::PostgresServer.missing and skip reason
    require "pg"
    @server = self.class.server
    @connection = PG.connect(@server.url)
    @version = @connection.server_version / 10_000
  rescue LoadError
    skip "the gem pg is not in the bundle"
  end

  def teardown = @connection&.close

  def self.server
    @server ||= NeverBlockTest::PostgresServer.start.tap { |server| Minitest.after_run { server.stop } }
  end

  def rows(sql) = @connection.exec(sql).values

  def test_listed_functions_are_what_the_server_says_they_are
    known = rows(<<~SQL).to_h { |name, volatile, public, system| [name, {volatile: volatile == "t", public: public == "t", system: system == "t"}] }
      SELECT proname, bool_or(provolatile = 'v'), bool_and(has_function_privilege('public', oid, 'execute')),
        bool_or(prorettype IN ('internal'::regtype, 'trigger'::regtype) OR prosecdef)
      FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace GROUP BY proname
    SQL
    listed = Functions.listed(@version).keys
    assert_empty listed - known.keys, "are not in pg_proc"
    assert_empty listed.reject { |name| known[name][:public] }, "are for superusers"
    assert_empty listed.select { |name| known[name][:system] }, "are no functions for users"
    assert_equal (Functions::VOLATILE.keys + Functions::LATER_VOLATILE & listed).sort, listed.select { |name| known[name][:volatile] }.sort
    assert_empty listed & Functions::WRITING.keys
    assert_empty Functions::WRITING.keys - known.keys
    assert_empty listed.grep(Functions::KEEPS_STATE)
    later = Functions::SINCE.select { |since, _| since > @version }.values.flatten
    assert_empty later & known.keys, "are older than listed"
  end

  # Functions that run SQL given as text, or refer to the session, according to PostgreSQL, must not be listed.
  def test_functions_of_the_session_are_not_listed
    listed = Functions.listed(99)
    names = rows("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace").flatten
    suspects = names.grep(/setting|set_config|setseed|advisory|backend|client|_xml|lo_|_file|_ls_|cursor|prepared|temp_schema|listening|notif|reset|replication|snapshot\z|stat_get|xact_id|txid_current|wal_switch|promote|reload|rotate|slot|currval|lastval|nextval|setval|ts_stat|ts_rewrite/)
    harmless = %w[pg_current_snapshot pg_visible_in_snapshot]
    assert_empty suspects.select { |name| listed[name] } - harmless
  end

  # (x).f calls f. Functions that only read what is the same for all are left out.
  def test_functions_that_can_be_called_as_columns
    names = rows(<<~SQL).flatten
      SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v' AND prokind = 'f'
        AND pronargs >= 1 AND pronargs - pronargdefaults <= 1 AND prorettype <> 'trigger'::regtype AND NOT proargtypes::oid[] && '{internal,cstring}'::regtype[]::oid[]
    SQL
    harmless = names.grep(/validat|_version\z|_status\z|commit_timestamp|_pids\z|multixact|sequence_last_value/)
    assert_empty names.grep_v(Functions::ATTRIBUTES) - harmless - Functions.listed(@version).keys
    assert_empty Functions.listed(99).keys.grep(Functions::ATTRIBUTES)
  end

  def test_listed_keywords_are_no_names_of_functions
    categories = rows("SELECT word, catcode FROM pg_get_keywords()").to_h
    listed = Keywords.listed(@version).keys
    assert_empty listed.reject { |word| %w[R C].include?(categories[word]) }
    later = Keywords::SINCE.select { |since, _| since > @version }.values.flatten
    assert_empty later.select { |word| %w[R C].include?(categories[word]) }, "are older than listed"
  end

  # Every position of a call; "evil" is replaced by each word that PostgreSQL allows as a function's name.
  PLACES = [
    "select evil(1)", "select 1, evil(1)", "select a, evil(1) from t", "select -evil(1)", "select a + evil(1) from t", "select not evil(1) = 1", "select (evil(1))", "select a evil(1) from t", "select distinct evil(1) from t",
    "select distinct on (a) evil(1) from t", "select distinct on (a) a, evil(1) from t", "select distinct on (evil(1)) a from t", "select all evil(1) from t", "select 1 as a, evil(1)", "select 1 a, evil(1)",
    "select array[evil(1)]", "select array[1, evil(1)]", "select array[a, evil(1)] from t group by array[a, evil(1)], a", "select row(evil(1))", "select (array[1])[evil(1)]", "select coalesce(evil(1))", "select coalesce(null, evil(1))", "select lower(evil(1)::text)",
    "select case when evil(1) = 1 then 1 end", "select case evil(1) when 1 then 2 end", "select case when true then evil(1) end", "select case when false then 1 else evil(1) end", "select case 1 when evil(1) then 2 end",
    "select 1 where evil(1) = 1", "select 1 where a and evil(1) = 1", "select 1 where true and evil(1) = 1", "select 1 where evil(1) in (1)", "select 1 where 1 in (evil(1))", "select 1 where 1 in (2, evil(1))", "select 1 where 1 between evil(1) and 2",
    "select 1 where 1 between 1 and evil(1)", "select 1 where 1 between symmetric evil(1) and 1", "select 1 where 1 = any (array[evil(1)])", "select 1 where 'a' like evil(1)::text", "select 1 where 'a' ilike evil(1)::text", "select 1 where 'a' similar to evil(1)::text",
    "select 1 where 'a' not ilike evil(1)::text", "select 1 where 'a' like 'a' escape evil(1)::text", "select 1 where 1 is distinct from evil(1)", "select 1 where exists (select 1 from t where evil(1) = 1)", "select 1 where evil(1) is not null", "select 1 where evil(1) isnull",
    "select a from t group by a, evil(1)", "select a from t group by evil(1), a", "select 1 from t group by evil(1)", "select 1 from t group by (evil(1))", "select 1 from t group by a + evil(1)", "select 1 from t group by grouping sets ((evil(1)), (a))", "select 1 from t group by grouping sets (a, evil(1))",
    "select 1 from t group by grouping sets (evil(1), a)", "select 1 from t group by rollup (a, evil(1))", "select 1 from t group by cube (evil(1))", "select 1 from t group by distinct evil(1)", "select 1 from t group by a order by a, evil(1)",
    "select 1 from t having evil(1) = 1", "select a from t order by evil(1)", "select a from t order by a, evil(1)", "select a from t order by a using operator(pg_catalog.<), evil(1)", "select 1 limit evil(1)", "select 1 offset evil(1)", "select 1 limit 1 offset evil(1)",
    "select 1 fetch first (evil(1)) rows only", "select count(*) filter (where evil(1) = 1) from t", "select sum(evil(1)) filter (where true) from t", "select sum(a) over (partition by evil(1)) from t", "select sum(a) over (order by evil(1)) from t",
    "select sum(a) over (partition by a, evil(1)) from t", "select sum(a) over (order by a rows evil(1) preceding) from t", "select sum(a) over (order by a range between evil(1) preceding and current row) from t", "select sum(a) over w, evil(1) from t window w as (order by a)",
    "select sum(a) over w from t window w as (order by evil(1))", "select sum(a) over w from t window w as (), x as (order by evil(1))", "select percentile_cont(0.5) within group (order by evil(1)) from t",
    "select 1 from t join t u on evil(1) = 1", "select 1 from t join t u using (a) where evil(1) = 1", "select 1 from evil(1)", "select 1 from t, evil(1)", "select 1 from t cross join evil(1)", "select 1 from t, lateral evil(1)", "select 1 from t left join lateral evil(1) on true",
    "select 1 from evil(1) as x", "select 1 from evil(1) with ordinality", "select 1 from unnest(array[1]) with ordinality, evil(1)", "select 1 from unnest(array[1]) with ordinality as u(x, y), evil(1)", "select 1 from rows from (evil(1))", "select 1 from rows from (lower('a'), evil(1))",
    "select 1 from json_to_record('{}') as x(a int), evil(1)", "select 1 from (select 1) x, evil(1)", "select 1 from (select evil(1)) x", "select 1 from (values (evil(1))) x(y)", "select 1 from t tablesample bernoulli (evil(1))", "select 1 from t tablesample bernoulli (1) repeatable (evil(1))",
    "values (evil(1))", "values (1), (evil(1))", "select 1 union select evil(1)", "select 1 union all (select evil(1))", "(select evil(1))", "table t order by evil(1)",
    "with x as (select evil(1)) select * from x", "with x as (select 1), y as (select evil(1)) select * from y", "with x as (select 1) select evil(1)", "with x as (select 1) select 1, evil(1)", "with x as (select 1) select 1 from x, evil(1)", "with x as (select 1) (select evil(1))",
    "with x as (select 1) values (evil(1))", "with x as (select 1), y as (select 2) select 3, evil(1)", "with x as materialized (select 1) select 1, evil(1)", "select (with x as (select 1) select evil(1))", "select 1 from (with x as (select 1) select 1, evil(1)) y",
    "with recursive x(n) as (select 1 union all select n + evil(1) from x where n < 2) select 1 from x", "with recursive x(n) as (select 1 union all select n + 1 from x where n < 2) search depth first by n set y cycle n set z to evil(1) default 0 using w select 1 from x",
    "select cast(evil(1) as int)", "select evil(1)::numeric(10, 2)", "select 1::numeric(10, 2), evil(1)", "select 1::numeric(10,2) + evil(1)", "select now() at time zone evil(1)::text", "select extract(epoch from now()) + evil(1)", "select substring('a' from evil(1))",
    "select substring('a' from 1 for evil(1))", "select substring('a' for evil(1))", "select position('a' in evil(1)::text)", "select overlay('a' placing 'b' from evil(1))", "select trim(both evil(1)::text from 'a')", "select trim(evil(1)::text)", "select nullif(1, evil(1))",
    "select greatest(1, evil(1))", "select xmlelement(name x, evil(1))", "select xmlelement(name x, xmlattributes(evil(1) as y))", "select xmlforest(evil(1) as x)", "select xmlconcat(xmlcomment(evil(1)::text))", "select xmlserialize(content xmlcomment(evil(1)::text) as text)",
    "select xmlparse(document '<a>' || evil(1)::text || '</a>')", "select xmlparse(content evil(1)::text)", "select xmlroot(xmlcomment('a'), version evil(1)::text)", "select 1 from xmltable('/r' passing ('<a>' || evil(1)::text || '</a>')::xml columns x int path '.')", "select 1 from xmltable('/r' passing '<r/>' columns x text path evil(1)::text)",
    "select 1 from xmltable('/r' passing '<r/>' columns x text default evil(1)::text)", "select 1 from xmltable('/' || evil(1)::text passing '<r/>' columns x text)", "select 1 operator(pg_catalog.+) evil(1)", "select operator(pg_catalog.-) evil(1)", "select concat(variadic array[evil(1)])",
    "select concat('a', evil(1))", "select make_interval(days => evil(1))", "select interval '1 day' * evil(1)", "select date '2020-01-01' + evil(1)", "select collation for (evil(1)::text)", "select 1 /* x */ + evil/**/(1)", "select evil -- x\n (1)",
    "select array(select evil(1))", "select 1 where (1, 2) in (select 1, evil(1))", "select (row(evil(1))).f1", "select (select evil(1))", "select 1 where (1, 2) overlaps (3, evil(1))", "select 1 where (now(), now()) overlaps (now(), now() + evil(1) * interval '1 day')", "explain (analyze) select evil(1)", "explain analyze (select evil(1))", "explain analyze with x as (select 1) select evil(1)"
  ].freeze

  # Statements that change rows or tables run alone, but leave the connection to others afterwards.
  WRITES = [
    "insert into t values (evil(1))", "insert into t (a) values (evil(1))", "insert into t (a) select evil(1)", "insert into t (a) values (1) returning evil(1)", "insert into t (a) values (1) returning a, evil(1)", "insert into t as x (a) values (evil(1))",
    "insert into t with x as (select 1) select evil(1)", "insert into t (a) with x(y) as (select 1), z as (select 2) select evil(1)", "insert into t (a) select 1 from t join u on evil(1) = 2", "insert into u select 1 from t x join t y on evil(1) = 2 on conflict do nothing",
    "insert into u (a) values (1) on conflict (a) do update set a = evil(1)", "insert into u (a) values (1) on conflict (a) do update set (a) = row(evil(1))", "insert into u (a) values (1) on conflict (a) do update set a = 1 where evil(1) = 2", "insert into u values (evil(1)) on conflict do nothing",
    "update t set a = evil(1)", "update t set a = (select 1 from t order by evil(1) limit 1)", "update t set a = (select 1 from t group by a, evil(1) limit 1)", "update t set a = (select sum(a) over (partition by evil(1)) from t limit 1)", "update t set (a) = row(evil(1))", "update t set (a) = (select evil(1))", "update t set a = 1 where evil(1) = 2", "update t set a = 1 from evil(1)", "update t set a = 1 returning evil(1)", "update only t x set a = evil(1)",
    "delete from t where evil(1) = 2", "delete from t using evil(1) x where x = 2", "delete from t where false or evil(1) = 2 returning 1", "delete from t where a in (select evil(1) + 9)",
    "merge into t using (select 1) s on evil(1) = 2 when matched then do nothing", "merge into t using (select 1) s on a = 7 when not matched and evil(1) = 2 then do nothing", "merge into t using (select 1) s on false when not matched then insert (a) values (evil(1))",
    "merge into t using (select 1) s on true when matched then update set a = evil(1)", "merge into t using (select 1) s on true when matched then update set (a) = row(evil(1))", "merge into t using evil(1) x on a = x when matched then do nothing",
    "merge into t using (select 1) s on true when matched and case when true then evil(1) end = 2 then delete when not matched then insert (a) values (1)",
    "with x as (insert into t values (evil(1)) returning a) select 1", "with x as (insert into t values (1) returning a) select evil(1)", "with x as (delete from t where evil(1) = 2 returning a), y as (select 1) select 1", "with x as (insert into t values (1) returning a), y as (select 1) select 1, evil(1)",
    "with x as (insert into t values (1) returning a), y(z) as (select evil(1)) select z from y", "with x as (update t set a = evil(1) returning a) select 1", "with x as (select 1) insert into t select evil(1)", "with x as (select 1) update t set a = evil(1)", "with x as (select 1) delete from t where evil(1) = 2",
    "select evil(1) from t for update", "select a, evil(1) from t for share", "select 1 from t where evil(1) = 1 for update of t nowait", "select setval('s', evil(1))", "select nextval('s'), evil(1)", "select 1 from t, evil(1) for update of t",
    "create table n as select evil(1)", "create table n as (select evil(1))", "create table n (a) as select evil(1)", "create table n as values (evil(1))", "create table n as with x as (select 1) select 1 as a, evil(1)", "create table if not exists n as select evil(1) as a",
    "create table n as select sum(a) over (partition by evil(1)) from t", "create table n as table t order by evil(1)", "create table n partition of p for values from (evil(1)) to (9)", "create table n partition of p for values from (0) to (evil(1))",
    "alter table t add column n int default evil(1)", "alter table t alter a type int using evil(1)", "alter table t add constraint n check (evil(1) = 1)", "alter table t add column n int, add check (evil(1) = 1)", "alter table p attach partition u for values from (evil(1)) to (9)",
    "explain analyze insert into t values (evil(1))", "explain (analyze) update t set a = evil(1)", "explain analyze with x as (insert into t values (evil(1)) returning 1) select 1"
  ].freeze

  slow "thousands of statements"
  def test_no_call_is_overlooked_whatever_the_function_is_called
    classifier = Classifier.new(server_version: @version)
    tables
    # The text doesn't show an overload of a built-in function.
    words = ["evil", "Evil", *keywords].select { |word| !Functions.listed(99)[word] && trap(word) }
    assert_operator words.size, :>, 300, "words that functions can be named with"
    judged = words.product(PLACES + WRITES) do |word, place|
      sql = place.gsub("evil", word)
      next unless %i[read write].include?(classifier.call(sql).kind)
      assert_empty called(sql), "#{sql}\nis called a read or write"
    end
    assert_operator judged.size, :>, 0
  end

  # They do call the function, or the test above would prove nothing.
  slow "thousands of statements"
  def test_the_places_are_calls
    tables
    trap("evil")
    places = PLACES + WRITES.reject { |sql| sql.start_with?("merge") && @version < 15 }
    silent = places.reject { |sql| called(sql) == "evil" }
    assert_operator silent.size, :<, 10, silent.join("\n")
  end

  # A column and its alias may be any word, so INTO may follow any.
  slow "thousands of statements"
  def test_no_select_into_is_overlooked
    classifier = Classifier.new(server_version: @version)
    tables
    keywords.each do |word|
      ["select 1 evil into temp n", "select (1) evil into temp n", "(select 1 evil into temp n)", "select 1 as evil into temp n", "select t.evil into temp n from t", "select evil into temp n from t", "with x as (select 1) select 2 evil into temp n",
        "with x as (select 1) select (2) evil into temp n", "select 1 into temp evil", "select a::evil into temp n from t", "select 1 evil into temp n union select 2"].each do |place|
        sql = place.gsub("evil", word)
        assert_equal :session, classifier.call(sql).kind, sql
      end
    end
  end

  # Fragments of quotes, comments and escapes, in any order: a text that the server takes for one statement has the same
  # result when it is rebuilt from our tokens.
  BITS = ["'", "'", "''", "\"", "\\", "\\'", "$", "$$", "$t$", "--", "-", "/", "/*", "*/", "*", "\n", "\r", "\t", " ", " ", ";", "E'", "e'", "B'", "X'", "U&'", "N'", "a", "t", "1", "0", "1.", ".5", "..", "1e", "_", "é", ",", "(", ")",
    "::text", "||", "+", "=", "[", "]", ":", "'a'", "E'\\''", "'b'\n", "-- c\n", "/* ' */", "\u00a0"].freeze

  slow "thousands of statements"
  def test_texts_are_split_as_the_server_does
    random = Random.new(ENV.fetch("SEED", 6).to_i)
    taken = 0
    20_000.times do
      sql = "select #{Array.new(random.rand(1..9)) { BITS.sample(random: random) }.join}"
      answer = answer(sql) or next
      taken += 1
      tokens = NeverBlock::Postgres::Lexer.tokens(sql)
      tokens.pop while tokens.last == ";"
      refute_includes tokens, ";", sql.inspect
      assert_equal answer, answer(tokens.join("\n")), "#{sql.inspect} is split into #{tokens.inspect}"
    end
    assert_operator taken, :>, 500
  end

  private

  def answer(sql)
    @connection.exec_params(sql, []).values
  rescue PG::Error
    nil
  end

  def tables
    @connection.exec(<<~SQL)
      SET client_min_messages = error;
      SET statement_timeout = '5s';
      DROP TABLE IF EXISTS t, u, p, n;
      DROP SEQUENCE IF EXISTS s;
      CREATE TABLE t (a int);
      INSERT INTO t VALUES (1), (2);
      CREATE TABLE u (a int PRIMARY KEY);
      INSERT INTO u VALUES (1);
      CREATE TABLE p (a int) PARTITION BY RANGE (a);
      CREATE SEQUENCE s
    SQL
  end

  def keywords = rows("SELECT word FROM pg_get_keywords() ORDER BY 1").flatten

  # A function that leaves its name in the session.
  def trap(word)
    @connection.exec("CREATE OR REPLACE FUNCTION #{word}(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('trap.hit', '#{word}', false); RETURN 1; END $$")
  rescue PG::SyntaxError
    nil
  end

  # @return [String] functions that the SQL has called, by the names they have left in the session
  def called(sql)
    @connection.exec("SELECT set_config('trap.hit', '', false)")
    begin
      @connection.exec_params(sql, [])
    rescue PG::Error
      nil # a failed statement leaves nothing
    end
    tables if sql.match?(/\b(n|add|attach)\b/)
    @connection.exec("SELECT current_setting('trap.hit', true)").getvalue(0, 0).to_s
  end
end
