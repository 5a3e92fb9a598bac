# frozen_string_literal: true

require "test_helper"
require "support/classified"
require "neverblock/postgres/classifier"

# The connection that a statement may use, by its text. A wrong :read would leak: in doubt, a statement is a :session.
class PostgresClassifierTest < Minitest::Test
  extend NeverBlockTest::Classified

  Classifier = NeverBlock::Postgres::Classifier
  CLASSIFIER = Classifier.new(shareable_functions: ["price", "shop.total", '"Odd"'], server_version: 14)
  NEWEST = Classifier.new(server_version: 180_000)

  def check_reason(classification)
    %i[read empty].include?(classification.kind) ? assert_nil(classification.reason) : refute_empty(classification.reason.to_s)
  end

  def test_objects_that_are_not_texts
    [nil, 1, :select].each { |sql| assert_raises(TypeError) { CLASSIFIER.call(sql) } }
  end

  # Queries
  judged :read,
    "select 1", "SELECT 1;", " ; ; select 1 ; -- that's all\n;", "/* a */ select /* b */ 1", "SELECT", "select $1::int",
    "VALUES (1, 2), (3, 4)", "TABLE users", "(SELECT 1)", "((select 1) union (select 2)) order by 1",
    %(SELECT "users".* FROM "users" WHERE "users"."id" = $1 LIMIT $2),
    %(SELECT 1 AS one FROM "users" WHERE "users"."name" = 'a; SET ROLE b' LIMIT 1),
    %(SELECT COUNT(*) AS "count_all", "users"."kind" AS "users_kind" FROM "users" GROUP BY "users"."kind" HAVING (COUNT(*) > 2)),
    "select a from b join c using (d) left join (select e from f) g on (g.e = b.e) cross join lateral (select 1) h",
    "select a from b left join (c inner join d on c.e = d.e) on (b.f = c.f)",
    "select * from a natural join b, only c, only (d)", "select a from b where (c, d) in ((1, 2), (3, 4))",
    "select a from b where c in (1, 2) and not (d or (e)) and f between (1) and (2) and g like ('x') or h similar to ('y')",
    "select a from b where c = any ($1) or c = all (array[1, 2]) or c <> some (select d from e)",
    "select case when (a) then (b) else (c) end, case (a) when (1) then 2 end", "select row(1, 2), (row(1, 2)).f1, array(select 1)",
    "select exists(select 1), exists (select from a)", "select array[lower('a'), 'b'], (array[1, 2])[1], '{1}'::int[]",
    "select interval '1 day', timestamp(3) with time zone '2020-01-01', time (0) '10:00', current_timestamp(3), localtime (0)",
    "select cast(a as numeric(10, 2)), a::varchar(10), a::geometry(point, 4326), cast(a as public.thing(3)), a::bit varying (5)",
    "select a::character varying(3), b::double precision, cast(c as char (2)), d at time zone ('UTC')",
    "select extract(epoch from a), substring(b from 1 for 2), position('a' in b), overlay(b placing 'x' from 2), trim(both ' ' from b)",
    "select coalesce(a, b), nullif(a, b), greatest(a, b), least(a, b), normalize(a, nfc), xmlelement(name a, xmlattributes(b as c))",
    "select count(*) filter (where a > 1), sum(b) over (partition by (c) order by (d) rows between 1 preceding and current row) from e",
    "select percentile_cont(0.5) within group (order by a) filter (where b) from c",
    "select rank() over w, lag(a, 1) over (w order by b) from c window w as (partition by d)",
    "select a, b, count(*) from c group by grouping sets ((a), (b), (), rollup (a, b)), rollup (a), cube(a, b)",
    "select grouping(a) from b group by rollup(a) having count(*) > 1 order by lower(a) nulls last",
    "select a from b group by distinct cube (a, b)", "select distinct on (a, lower(b)) a, lower(b) from c order by (a), 2 desc",
    "select distinct (a) from b", "select count(distinct (a)) from b", "select all (a) from b",
    "select a from b union all (select c from d) except (values (1)) intersect all table e",
    "select a from b order by c limit (1) offset (2)", "select a from b offset 5 rows fetch first (3) rows only",
    "select a from b fetch next 3 rows with ties", "select * from a tablesample bernoulli (10) repeatable (5)",
    "select * from a tablesample system(1)", "select * from unnest(array[1], array[2]) with ordinality as t(a, b, c)",
    "select * from generate_series(1, 3) as g(i), generate_series(1, 2) h(j), rows from (unnest(a), json_each(b)) as x",
    "select * from jsonb_to_recordset($1) as x(a int, b numeric(10,2), c varchar(5))", "select * from (values (1, 'a')) as v (a, b)",
    "select * from (values (1, 'a')) v (a, b)", "select * from (select 1) s(a)", %(select * from (select 1) "S" ("a")),
    "with a as (select 1) select * from a", "with a(x, y) as (select 1, 2), b (z) as (values (3)) select * from a, b",
    "with recursive t(n) as (values (1) union all select n + 1 from t where n < 100) select sum(n) from t",
    "with a as materialized (select 1), b (c) as not materialized (select 2), d(e) as (select 3) select lower('a') from a, b",
    "with a as (with b(c) as (select 1) select * from b) select * from a",
    "with recursive a as (select 1) search depth first by b set c select * from a",
    "select * from xmltable('/r' passing a columns b int path '@b', c numeric(5, 2) path 'c' default 1) as x",
    %(SELECT pg_catalog.format_type(a.atttypid, a.atttypmod), pg_catalog."lower"('A'), "pg_catalog".upper ('a') FROM pg_catalog.pg_attribute a),
    %(select "lower"('A'), lower /* of */ ('A'), lower -- of\n ('A')), "select a operator(pg_catalog.+) b, lower(c)",
    "select price(1), PRICE(2), \"price\"(3), shop.total(4), Shop . Total (5), \"Odd\"(6)", "select now(), clock_timestamp(), random(), gen_random_uuid()",
    "select pg_sleep(1)", "select pg_is_in_recovery()", "select version()", "select current_user, session_user, current_schema, user",
    "select 'set_config(''a'', ''b'', false)'", "select $$; set role x; $$", "select $a$ $$; drop table b $a$", "select 1 -- ; set role x",
    "select 1 /* ; set role x /* nested */ ; */", %(select "a; set role b"), "select E'\\'; set role x; --'", "select e'a'\n'\\'; set role x; --'",
    %q(select '\' as backslash, ' ; set role x; '), "select 1 as \"into\"", "select t.update, t.delete from t", %(select "update" from "insert"),
    "select jsonb_exists(a, 'b'), a ? 'b', a ?| array['b'], a @> '{}', a #>> '{b}' from c", "select a[1:2], b[lower('c')::int] from d",
    "select 1 where 'a' ilike (select 'b')", "select substring(a for 2) from b", "select a from b where c is distinct from lower(d)",
    "select to_tsvector('english', a) @@ plainto_tsquery($1), ts_rank(b, c) from d", "select xpath('/a', b), xmlagg(c) from d",
    "select * from information_schema.tables", "select collation for ('a')", "select u&'d\\0061t'", "select a.*, (b).c, (select d).e from f",
    "explain select 1", "EXPLAIN (ANALYZE, VERBOSE) SELECT lower('a')", "explain analyze verbose select 1", "explain (select 1)",
    "explain (costs off) (select 1) union (select 2)", "explain with a(b) as (select 1) select * from a",
    "show search_path", "SHOW ALL", "show time zone", "show transaction isolation level", "show app.tenant"

  # Sequel's queries of a schema
  judged :read,
    %(SELECT "pg_attribute"."attname" AS "name", CAST("pg_attribute"."atttypid" AS integer) AS "oid", format_type("basetype"."oid", "pg_type"."typtypmod") AS "db_base_type", pg_get_expr("pg_attrdef"."adbin", "pg_class"."oid") AS "default", NOT "pg_attribute"."attnotnull" AS "allow_null", COALESCE(("pg_attribute"."attnum" = ANY("pg_index"."indkey")), false) AS "primary_key" FROM "pg_class" INNER JOIN "pg_attribute" ON ("pg_attribute"."attrelid" = "pg_class"."oid") LEFT OUTER JOIN "pg_type" AS "basetype" ON ("basetype"."oid" = "pg_type"."typbasetype") WHERE (("pg_attribute"."attisdropped" IS FALSE) AND ("pg_class"."oid" = CAST(CAST('"t"' AS regclass) AS oid))) ORDER BY "pg_attribute"."attnum"),
    %(SELECT "relname" FROM "pg_class" INNER JOIN "pg_namespace" USING ("x") WHERE (("relkind" IN ('r', 'p')) AND ("nspname" !~ '^pg_|information_schema') AND pg_table_is_visible("pg_class"."oid"))), %(SELECT NULL AS "nil" FROM "t" LIMIT 1)

  judged :read,
    "select any_value(a), array_sort(b), uuidv7(), crc32(c), to_hex(1), regexp_like(a, 'b') from d",
    "select * from json_table($1, '$[*]' columns (a int path '$.a', nested path '$.b[*]' columns (c text path '$')))",
    "select * from json_table($1, '$[*]' as root passing 1 as x columns (a for ordinality)) as t(a)",
    "select json_value(a, '$.b'), json_query(a, '$'), json_exists(a, '$'), json_array(1, 2), json_arrayagg(b) filter (where c) from d",
    "select json_object('a': lower('B')), json_scalar(1), json('{}'), lag(a) ignore nulls over (order by b) from c", by: NEWEST

  # Calls of unknown functions
  unsure(/it calls .+\(\), which is not known/,
    "select evil()", "select lower(evil(1))", "select EVIL (1)", "select evil/**/(1)", "select evil --\n(1)", %(select "evil"(1)),
    %(select "Lower"('a')), %(select "coalesce"(1)), %(select "count "(1)), "select app.lower('a')", "select pg_catalog.coalesce(1, 2)",
    "select app.coalesce(1)", "select app.select(1)", "select a.values (1)", "select db.pg_catalog.lower('a')", "select shop.price(1)",
    "select total(1)", "select odd(1)", "select \"shop.total\"(1)", "select \"pg_catalog.lower\"('a')", "select (a).evil(1) from b",
    "select 1 from a where evil(b)", "select 1 from a order by evil(b)", "select 1 from a group by evil(b)", "select 1 having evil()",
    "select count(*) filter (where evil(a)) from b", "select sum(a) over (partition by evil(b)) from c", "select sum(a) over (order by evil(b)) from c",
    "select 1 from a join b on evil(a.c)", "select 1 from a, lateral evil(a.b)", "select 1 from a left join lateral evil(b) on true",
    "select 1 from evil()", "select 1 from a, evil() as b(c)", "select 1 from evil() as a(b int), evil(2) as c(d int)", "select 1 from rows from (evil())",
    "select 1 from lower('a') as b(c text), evil(1) as d(e int)", "with a as (select evil()) select 1", "with a as (select 1), b as (select evil()) select 1",
    "with a as (select 1) select b, evil(1) from a", "with a as (select 1), b as (select 2) select evil(1)", "with a as (select 1) (select evil(1))",
    "with a as (select 1) select 1 from a, evil(1)", "select (with a as (select 1) select evil(1))", "select 1 from (select evil()) a",
    "select case when true then evil() end", "select case evil() when 1 then 2 end", "select case when a then 1 else evil() end", "select array[evil()]", "select array[1, evil()]",
    "select row(evil())", "select a[evil()] from b", "select a between evil() and 1 from b", "select a in (evil()) from b", "select a = any (evil()) from b",
    "select not evil()", "select 1 limit evil()", "select 1 offset evil()", "values (evil())", "select exists (select evil())", "select a like evil(b) from c",
    "select a ilike evil(b) from c", "select a like 'b' escape evil(c) from d", "select a at time zone evil(b) from c", "select -evil(1)", "select 1 + evil(1)",
    "select a from b fetch first evil() rows only", "select a::int + evil(1)", "select (a)::evil.type + evil(1)", "select 1 from b tablesample evil(1)",
    "select distinct on (a) evil(b) from c", "select distinct on (values) evil(b) from c", "select a operator(pg_catalog.+) evil(b)", "select distinct evil(a) from b",
    "select a operator(app.+) b", "select a operator(+) b", "select operator(1)", "select variadic_one(variadic array[1])", "select lower(variadic evil(1))",
    "select over(1)", "select filter(1)", "select a, over(1)", "select distinct on (a) over(1) from b", "select distinct on (a) filter(1) from b", "select escape(1)",
    "select rollup(1)", "select a from b group by a + rollup(c)", "select a from b group by array[a, rollup(c)]", "select a from b order by rollup(c)",
    "select a from b group by (rollup(c))", "select a from b group by a order by a, cube(a)", "select a from b group by a having a, rollup(c)", "select cube(1)",
    "select materialized(1)", "select not materialized(1)", "select conflict(1)", "select set(1)", "select 1 where set(1) = (2)",
    "select columns(1)", "select key(1)", "select insert(1)", "select case when a then insert(1) end", "select system(1)", "select bernoulli(1)", "select sets(1)", "select by(1)",
    "select hash(1)", "select sum(a) over (partition by hash(b)) from c", "select list(1)", "select zone(1)", "select first(a) from b", "select next(1)", "select values.evil(1)",
    "select uuidv7()", "select array_sort(a) from b", "select json_value(a, '$') from b", "select * from json_table(a, '$' columns (b int path '$.b'))", "select regexp_like(a, b)",
    "select query_to_xml('select evil()', true, true, '')", "select table_to_xml('a', true, true, '')", "select ts_stat('select evil()')", "select ts_rewrite(a, 'select evil()')",
    "select pg_read_file('a')", "select pg_ls_dir('a')", "select pg_terminate_backend(1)", "select pg_cancel_backend(1)", "select pg_notification_queue_usage()", "select pg_stat_reset()",
    "select inet_client_port()", "select pg_my_temp_schema()", "select pg_listening_channels()", "select graph_table(1)",
    "select pg_backend_pid()", "select pg_get_backend_memory_contexts()", "select pg_cursor()", "select pg_show_all_settings()",
    "select * from json_table(columns(a), '$' columns (b int path '$'))", "select uuid_generate_v4()", "explain analyze select evil()", "explain (analyze) (select evil())",
    "insert into a values (evil())", "insert into a (b) select evil()", "insert into a (b) values (1) on conflict (b) do update set c = evil()", "insert into a (b) values (1) returning evil()",
    "update a set b = evil()", "update a set (b, c) = (evil(), 2)", "update a set b = 1 where evil()", "delete from a where evil(b)", "delete from a using evil() b",
    "merge into a using b on (a.c = b.c) when matched and evil() then delete", "select 1 for update of a nowait, evil(1)",
    "create table a as select evil()", "create table a (b int default evil())", "create table a partition of b for values from (evil()) to (1)", "create index a on b (evil(c))",
    "create index a on \"date\" (c) where evil(c)", "create unique index a on b using btree (c) where evil(c)", "create materialized view a as select evil()",
    "alter table a add column b int default evil()", "alter table a alter column b type int using evil(b)", "alter table a alter b type int using hash(b)", "alter table a add check (evil(b))", "alter table a alter b type exclude using gist(b)",
    "create table a (b vector(3))",
    "select 1 from b join(c) on true", "update a set b = (select 1 order by set(1))", "update a set b = (select 1 from c group by set(1))", "update a set b = (select 1 order by reset(1))",
    "insert into a select 1 from b order by set(1)", "update a set b = sum(c) over (partition by set(1))", "select 1 from a order by set(1) for update", "update a b reset (c)")

  judged :session, "select 1 from a join b on conflict(a.c)", "insert into a select 1 from b join c on conflict(b.d) where e", "insert into a select 1 from b join c on conflict(b.d) on conflict do nothing",
    "insert into a select b as do from c join d on conflict(e)", "select 1)", "(select 1", "select (1", "select [1", "select 1) (", "foo", "frobnicate the table", "1", "'a'", "\"select\" 1", "()"

  unsure(/leaves or reads session state/,
    "select set_config('a.b', 'c', false)", "select pg_catalog.set_config('a.b', 'c', false)", %(select "set_config"('a.b', 'c', false)), %(select pg_catalog . "set_config" ('a', 'b', false)),
    "with a as (select set_config('a.b', 'c', false)) select 1", "select 1 from a, lateral (select set_config('a.b', a.c, false)) b", "select 1 order by set_config('a.b', 'c', false)",
    "select currval('a_id_seq')", "select lastval()", "select pg_advisory_lock(1)", "select pg_try_advisory_lock(1)", "select pg_advisory_unlock(1)",
    "select setseed(0.5)", "select lo_create(0)", "select lo_open(1, 2)", "select pg_export_snapshot()", "select dblink('a', 'b')", "insert into a values (currval('b'))", "values (set_config('a', 'b', false))")
  # Effects that end with the transaction
  judged :transactional, "select pg_advisory_xact_lock(1)", "select pg_try_advisory_xact_lock_shared(1, 2)", "select txid_current()", "select pg_catalog.pg_current_xact_id()",
    "select set_config('a.b', 'c', true)", %(select pg_catalog . "set_config" ('a', lower('B'), TRUE)), "select set_config('a.b', $1, true), c from d", "with a as (select set_config('a.b', 'c', true)) select 1"
  judged :write, "insert into a values (set_config('a.b', 'c', true))", "update a set b = txid_current()"
  judged :session, "select set_config($1, 'c', true)", "select set_config('a.b', 'c', $1)", "select set_config('a.b', 'c', not false)", "select set_config('a' || 'b', 'c', true)", "select set_config('seed', '0.5', true)",
    "select set_config('a.b', evil(), true)", "select app.set_config('a.b', 'c', true)", "select set_config('a.b', 'c', true, 1)", "select set_config(E'a.b', 'c', true)", "select set_config('a.b', true)",
    "create table a as select set_config('a.b', 'c', true)", "create table a as select txid_current()", "select set_config('a.b', 'c', true), set_config('a.b', 'c', false)"
  # Functions that read session state
  judged :looking, "select current_setting('app.tenant')", "select * from a where b = pg_catalog.current_setting('app.tenant', true)::int", "insert into a values (current_setting('app.tenant'))",
    "select current_setting('app.tenant'), txid_current()"
  judged :session, "select current_setting('app.tenant'), evil()", "create table a (b text default current_setting('app.tenant'))", "declare a cursor for select current_setting('app.tenant')"

  def test_the_setting_of_set_config_is_told
    assert_equal "search_path", CLASSIFIER.call("select set_config('a.b', 'c', true), set_config('Search_Path', 'd', true), set_config('e.f', 'g', true)").name
    assert_equal "role", CLASSIFIER.call("insert into a select set_config('role', 'b', true)").name
  end

  # Calls without a parenthesis after the name
  unsure(/it calls/, "select treat(8::bigint as pg_advisory_lock)", "select (a::bigint).pg_advisory_lock from b", "select a.pg_try_advisory_lock from generate_series(1, 2) a", %(select (0.5::float8)."setseed"),
    "select ('a'::regclass).currval", "insert into a values ((7::oid).lo_unlink)", "select (('select evil()')::text) . ts_stat", "select pg_catalog.pg_advisory_lock from generate_series(1, 2) pg_catalog",
    "select (a).pg_terminate_backend from b", "create index a on b (((c).pg_advisory_lock))", "select ((a).b).pg_stat_reset_single_table_counters from c")
  judged :read, "select a.lo_revenue, a.pg_read, a.set, a.seed, b.nextval_at, b.pg_log_level, b.pg_backup_size from a, b", "select pg_class.relname from pg_catalog.pg_class", "select a.oid::regclass from pg_catalog.pg_attrdef a"
  judged :write, "update a set b = c.lo_price from c", "select ('a'::regclass).nextval", "select a.nextval from a"
  unsure(/it calls/, "declare a cursor for select set_config('b', 'c', false)", "declare a cursor with hold for with b as (select pg_advisory_lock(1)) select * from b", "declare \"for\" cursor for select evil()")
  unsure(/would be read differently/, "set local standard_conforming_strings to off", "set local standard_conforming_strings to default")
  unsure(/could be replaced/, "set search_path to a, pg_catalog", "set local search_path = 'a', \"pg_catalog\"", "set search_path = 'a, pg_catalog, b'")
  unsure(/half of a character/, "set client_encoding to sjis", "set local names 'GBK'", "set names 'shift-jis'", "set local client_encoding = 'Windows 949'", "set local client_encoding to default")
  unsure(/not understood/, "set local a from current", "declare a cursor", "set local standard_conforming_strings = E'of\\x66'", "set local search_path = U&'a', pg_catalog", "set local")
  unsure(/can't be read: it has a name with escapes/, %(select U&"\\0073et_config"('a', 'b', false)), %(select * from u&"pg\\005fsettings"))
  unsure(/can't be read/, "select 'a", "select $a$ b", "select /* 1", "select \"a", "select 1\0", "select '\xFF'", "select \\x")
  unsure(/belongs to the session/, "select * from pg_settings", "update pg_settings set setting = 'x' where name = 'role'", "select * from pg_catalog.\"pg_settings\"",
    "select * from pg_temp.a", "insert into pg_temp_3.a values (1)", "create table pg_temp.a (b int)", "create table \"pg_temp\".a (b int)", "drop table pg_temp.a", "select pg_temp.f(1)",
    "select * from pg_prepared_statements", "select * from pg_cursors", "select * from pg_stat_xact_user_tables", "create view a as select * from pg_settings", "create function pg_temp.a() returns int as '' language sql")
  unsure(/SELECT INTO/, "select 1 into a", "select * into temp a from b", "with a as (select 1) select * into b from a", "select 1 union select 2 into a", "select a.insert into temp b from a", "select insert into temp b from a",
    "select (a) insert into temp b from c", "select a insert into b from c", "select a merge into b from c", "with a as (select 1) select b insert into temp c from a", "select * from (select insert into temp b) c")
  unsure(/several/, "select 1; select 2", "select 1; set role x", "begin; select 1; commit", "; select 1;; select 2 ;", "create rule a as on insert to b do also (select 1; select 2)")
  unsure(/DO block/, "do $$ begin end $$", "DO LANGUAGE plpgsql $$ begin perform set_config('a', 'b', false); end $$")
  unsure(/EXPLAIN of/, "explain execute a", "explain declare a cursor for select 1", "explain create table a as select 1", "explain", "explain (analyze)")
  unsure(/TEMP/, "create temp table a (b int)", "CREATE TEMPORARY TABLE a AS SELECT 1", "create local temp table a (b int)", "create global temporary table a (b int)", "create or replace temporary view a as select 1",
    "create temp sequence a", "create temp recursive view a (b) as select 1", "create or replace temp recursive view a (b) as select 1")
  unsure(/not understood/, "load 'x'", "security label on table a is 'b'", "set", "set a", "set a =", "set a to 'b' 'c'", "set time zone interval '1' hour", "set time zone -7", "set a to b c", "set a from current",
    "reset", "reset a b", "deallocate", "deallocate a b", "commit a", "begin a", "start", "rollback to", "discard", "alter widget a", "show 'a'", "listen 'a'", "set session characteristics as transaction read only, deferrable",
    "deallocate \"all\"", "create assertion a")
  unsure(/with other statements/, "create schema a create table b (c int)", "create table a as execute b(1)")
  unsure(/strings would be read differently/, "set standard_conforming_strings = off", "SET SESSION standard_conforming_strings TO 'OFF'")
  unsure(/temporary ones/, "set search_path to pg_temp, public", "set search_path = 'pg_temp'", "set schema 'pg_temp_3'")
  unsure(/procedure/, "call a()", "call pg_catalog.lower('a')")

  # Writes
  judged :write,
    %(INSERT INTO "users" ("name", "created_at") VALUES ($1, $2) RETURNING "id"), "insert into a default values", "insert into public.a (b) select lower(c) from d", "insert into a as x (b) values (1)",
    "insert into a (b) values (1) on conflict do nothing", "insert into a (b) values (1) on conflict (b) do update set c = excluded.c where a.d", "insert into a (b) values (1) on conflict (lower(b)) where c do nothing",
    "insert into a (b) values (1) on conflict on constraint c do update set (d, e) = (1, 2)", "with a(b) as (select 1) insert into c (d) select * from a", "insert into a values (now(), gen_random_uuid(), nextval('b'))",
    %(UPDATE "users" SET "name" = $1 WHERE "users"."id" = $2), "update a set (b, c) = (select 1, 2)", "update a * set b = 1", "update a b set (c) = row(1) from d where b.e = d.e returning b.*", %(UPDATE "a"."b" "t" SET ("c") = ROW(1)),
    %(DELETE FROM "users" WHERE "users"."id" IN (SELECT "id" FROM "old")), "delete from a using b where a.c = b.c",
    "merge into a using (select 1) b (c) on (a.c = b.c) when matched then update set c = 1 when not matched then insert (c) values (1)", "merge into a using b on true when not matched then insert default values",
    "with a as (insert into b (c) values (1) returning c) select * from a", "with a as (delete from b returning *), d(e) as (select 1) select lower('x') from a", "with a as materialized (update b set c = 1 returning *) select 1",
    "select 1 from (with a as (delete from b returning 1) select * from a) c", "explain analyze insert into a values (1)", "explain (analyze) with a as (delete from b) select 1",
    "select * from a for update", "select * from a for no key update skip locked", "select * from a for share of b nowait", "select * from a for key share", "(select * from a for update)",
    "select * from (select * from a for update) b", "select nextval('a')", "select pg_catalog.nextval('a')", "select setval('a', 1, false)", "select pg_notify('a', 'b')", %(SELECT "nextval"('a')), "select update from a",
    "create table a (b bigserial primary key, c character varying(255) not null, d decimal(10,2) default 1.0, e timestamp(6) default current_timestamp, f text default lower('A'))",
    %(CREATE TABLE "users" ("id" uuid DEFAULT gen_random_uuid() NOT NULL PRIMARY KEY, "a_id" bigint, CONSTRAINT "fk" FOREIGN KEY ("a_id") REFERENCES "as" ("id"), CHECK ("a_id" > 0), UNIQUE ("a_id"), EXCLUDE USING gist ("a_id" WITH =))),
    "create table if not exists a.b (c int) partition by range (c)", "create table a partition of b for values in (1, 2)", "create unlogged table a (b int generated always as identity (start 2), c int generated always as (b * 2) stored) inherits (d) with (fillfactor = 70)",
    "create table a as select lower(b) as c from d", "create table a (like b including all)", "create table a (b numeric, primary key (b) include (c))",
    %(CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "i" ON "public"."t" USING gin ("a" gin_trgm_ops, lower("b")) INCLUDE ("c") WHERE (deleted_at IS NULL)), "create index on a (b)", "create index a on only b using hash (c)",
    %(ALTER TABLE "a" ADD COLUMN "b" varchar(10) DEFAULT '' NOT NULL, DROP COLUMN c), "alter table a set (fillfactor = 70)", "alter table a alter column b type numeric(10,2) using b::numeric(10,2)", "alter table a disable trigger all",
    %(ALTER TABLE "a" ADD CONSTRAINT "f" FOREIGN KEY ("b") REFERENCES "c" ("d") ON DELETE CASCADE DEFERRABLE), "alter table a alter b set default nextval('c')", "alter type a add value 'b' after 'c'", "alter table a rename to b", "alter table a add constraint b exclude using gist (c with =)", "explain insert into a (b) values (1)", "explain (costs off) merge into a using b on true when matched then delete",
    "create type a as enum ('b', 'c')", "create type a as (b int, c numeric(3))", "create extension if not exists \"pgcrypto\" schema public", "create schema if not exists a", "drop schema a cascade", "create sequence a", "create view a (b) as select evil()",
    "create or replace view a as select 1", "create materialized view a as select lower(b) from c", "refresh materialized view concurrently a", "create function a(b int) returns int as $$ begin; set role x; end $$ language plpgsql set search_path = a",
    "create or replace procedure a() language sql as 'select 1; select 2'", "create trigger a before insert on b for each row execute function c()", "create policy a on b using (tenant = current_setting('app.tenant')::int)",
    "create role a", "create user a with password 'b'", "create user mapping for a server b", "alter role a set search_path = b", "alter user a rename to b", "alter database a set b = c", "alter system set a = 'b'", "alter default privileges in schema a grant select on tables to b",
    "create database a template b", "drop database if exists a", "create text search configuration a (copy = b)", "create domain a as int check (value > 0)", "drop function a(int, text)", "drop table if exists a, b cascade", "drop index concurrently a",
    "truncate table a, b restart identity", "comment on function a(int) is 'b'", "grant execute on function a(int) to b", "revoke all on a from b", "analyze a (b)", "vacuum (analyze, verbose) a", "vacuum", "reindex (verbose) table a", "cluster a using b", "checkpoint",
    "notify a, 'b'", "commit prepared 'a'", "rollback prepared 'a'", "reassign owned by a to b", "drop owned by a", "import foreign schema a from server b into c"

  # Transactions
  judged :begin, "begin", "BEGIN;", "begin work", "begin transaction isolation level repeatable read, read only, not deferrable", "start transaction", "START TRANSACTION READ WRITE", "/* a */ begin -- b"
  judged :commit, "commit", "COMMIT WORK", "commit transaction and no chain", "end", "end transaction", "prepare transaction 'a'"
  judged :rollback, "rollback", "rollback work", "abort", "ABORT TRANSACTION", "rollback and no chain"
  judged :transactional, "savepoint a", "release a", "RELEASE SAVEPOINT active_record_1", "rollback to a", "ROLLBACK TO SAVEPOINT active_record_1", "set local role a", "set local app.tenant = '1'",
    "set transaction isolation level serializable", "set constraints all deferred", "lock table a in exclusive mode", "set local time zone 'UTC'", "set local search_path to a, b", "set local search_path to pg_catalog, a", "commit and chain", "ROLLBACK AND CHAIN", "end work and chain"

  # Statements of a session, known ones
  judged :empty, "", " ", ";", ";;", "-- nothing", "/* nothing */ ;"
  judged :listen, "listen a", "LISTEN \"B\""
  judged :unlisten, "unlisten *", "unlisten a"
  judged :copy, "copy a from stdin", "COPY (select 1) TO STDOUT"
  judged :cursor, "declare a cursor for select 1", "declare a no scroll cursor for select b from c for update", "fetch 10 from a", "move a", "close a", "close all"
  judged :prepare, "prepare a as select 1", "prepare a (int) as select $1", "prepare transaction as select 1"
  judged :execute, "execute a", "execute a(1)", %(EXECUTE "A"('b'))
  judged :discard, "discard all", "DISCARD PLANS", "discard temporary"
  judged :deallocate, "deallocate a1", "DEALLOCATE PREPARE a1", "deallocate all", "deallocate prepare all"

  def self.settings(kind, **texts)
    texts.each do |sql, expected|
      define_method(:"test_#{kind}_#{sql}") do
        classification = CLASSIFIER.call(sql.to_s)
        assert_equal [kind, *expected], [classification.kind, classification.name, *classification.value], sql
      end
    end
  end

  settings :set,
    "SET search_path TO public": %w[search_path public], "set search_path = a, \"B\", '$user', 'c, d'": ["search_path", %(a, "B", "$user", "c, d")], "set search_path = ''": ["search_path", '""'], "set schema 'Odd'": ["search_path", '"Odd"'],
    "SET client_min_messages TO 'warning'": %w[client_min_messages warning], "SET standard_conforming_strings = on": %w[standard_conforming_strings on], "SET intervalstyle = iso_8601": %w[intervalstyle iso_8601],
    "SET SESSION timezone TO 'UTC'": %w[timezone UTC], "set time zone 'Europe/Berlin'": %w[timezone Europe/Berlin], "set session time zone utc": %w[timezone utc], "SET SESSION statement_timeout TO 500": %w[statement_timeout 500],
    "set statement_timeout to '5s'": %w[statement_timeout 5s], "set names 'utf8'": %w[client_encoding utf8], "set App.Tenant = 'it''s'": ["app.tenant", "it's"], "set \"app\".\"Tenant\" = 'a'": %w[app.tenant a], "set extra_float_digits = -1": %w[extra_float_digits -1],
    "set geqo_seed to .5": %w[geqo_seed .5], "set role none": %w[role none], "SET ROLE 'a'": %w[role a], "set session role \"B\"": %w[role B], "set role to c": %w[role c], "SET SESSION AUTHORIZATION bob": %w[session_authorization bob], "set xml option document": %w[xmloption document],
    "set session characteristics as transaction isolation level repeatable read": ["default_transaction_isolation", "repeatable read"], "set session characteristics as transaction read only": %w[default_transaction_read_only on],
    "set datestyle to 'iso, mdy'": ["datestyle", "iso, mdy"], "set a = E'b'": %w[a b], "set a = E'b\\\\\\\\''c'": ["a", "b\\\\'c"],
    "SET local.tenant = '7'": %w[local.tenant 7], "set transaction.a to 1": %w[transaction.a 1], "set constraints.a = b": %w[constraints.a b], "set session.a = b": %w[session.a b]
  settings :reset, "reset a": %w[a], "RESET ALL": %w[all], "reset App.Tenant": %w[app.tenant], "reset time zone": %w[timezone], "reset session authorization": %w[session_authorization], "reset role": %w[role], "set a to default": %w[a],
    "SET SESSION timezone TO DEFAULT": %w[timezone], "set time zone local": %w[timezone], "set time zone default": %w[timezone], "set names default": %w[client_encoding], "set session authorization default": %w[session_authorization]
  settings :session, "set seed to .5": %w[seed], "SET LOCAL seed = 0.5": %w[seed], "set session seed to 1": %w[seed] # no reset undoes it
  settings :discard, "discard all": %w[all], "discard temporary": %w[temp], "DISCARD SEQUENCES": %w[sequences]
  settings :deallocate, "deallocate a1": %w[a1], "deallocate \"A\"\"1\"": ['A"1'], "deallocate prepare all": %w[all]
  settings :unlisten, "unlisten *": %w[*], "unlisten \"A\"": %w[A]
  settings :listen, "listen Abc": %w[abc]
  settings :prepare, "prepare p as select 1": %w[p]
  settings :execute, "execute \"P\" (1)": %w[P]
  settings :cursor, "declare c cursor for select 1": %w[c], "declare \"D\" cursor for select 1": %w[D]

  def test_says_whether_there_are_several
    assert CLASSIFIER.call("select 1; select 2").several
    ["select 1;;", ";", "select ';'", ""].each { |sql| refute CLASSIFIER.call(sql).several, sql }
  end

  def test_says_whether_currval_is_called
    ["select currval('a')", "SELECT LastVal()", "insert into a values (\"currval\"('b'))", "select ('a'::regclass).currval", "select 1; select pg_catalog.currval /**/ ('b')", "create table a (b int default currval('c'))"].each do |sql|
      assert_same true, CLASSIFIER.call(sql).currval, sql
    end
    ["select 'currval(1)'", "select currval from a", "select 1"].each { |sql| assert_same false, CLASSIFIER.call(sql).currval, sql }
  end

  def test_a_statement_has_a_fingerprint
    assert_equal CLASSIFIER.call("select a from b where c = 1").fingerprint, CLASSIFIER.call("SELECT a FROM b\nWHERE c = 'x'").fingerprint
  end

  def test_functions_of_a_newer_version_are_somebodys_own
    assert_equal :session, Classifier.new(server_version: 17).call("select uuidv7()").kind
    assert_equal :read, Classifier.new(server_version: 18).call("select uuidv7()").kind
    assert_equal :read, Classifier.new(server_version: 180_004).call("select uuidv7()").kind
    assert_equal :read, Classifier.new(server_version: 15, shareable_functions: "uuidv7").call("select uuidv7()").kind
  end

  def test_a_shareable_name_does_not_make_syntax_of_it
    classifier = Classifier.new(shareable_functions: %w[operator on over])
    assert_equal :session, classifier.call("select a operator(app.+) evil(1)").kind
    assert_equal :session, classifier.call("select distinct on (a) evil(1) from b").kind
  end

  def test_a_shareable_function_must_be_a_name
    ["a b", "", "a.b.c", "f()", "1", "'a'", "a.", ".a", "a;b", nil, "f'", "\"a"].each do |name|
      error = assert_raises(NeverBlock::ConfigurationError, name.inspect) { Classifier.new(shareable_functions: [name]) }
      assert_includes error.message, name.inspect
      assert_includes error.message, "such as \"price\" or \"shop.price\""
    end
  end

  def test_a_function_that_keeps_state_can_not_be_called_shareable
    %w[set_config pg_catalog.set_config currval pg_advisory_lock pg_try_advisory_xact_lock lo_open dblink_connect app.setseed "set_config"].each do |name|
      error = assert_raises(NeverBlock::ConfigurationError, name) { Classifier.new(shareable_functions: [name]) }
      assert_match(/leave it out/, error.message)
    end
  end

  def test_texts_that_differ_in_literals_are_read_once
    classifier = Classifier.new
    first = classifier.call("select 1 from items where name = 'a'")
    assert_same first, classifier.call("select 2 from items where name = 'it''s'")
    settings = %w[a.b c.d].map { |name| classifier.call("select set_config('#{name}', '1', true)").name }
    assert_equal %w[a.b c.d], settings
    refute_same classifier.call("set a.b = 1"), classifier.call("set a.b = 2")
  end

  def test_a_text_that_changes_later_is_not_remembered_for_it
    classifier = Classifier.new
    sql = +"select 1"
    classifier.call(sql)
    sql << "; set role x"
    assert_equal :session, classifier.call(sql).kind
    assert_equal :read, classifier.call("select 1").kind
  end

  # For any mixture it raises nothing, and no text with a call of an unknown function, INTO or a second statement is a
  # read.
  FRAGMENTS = ["select", "1", "a", ",", "(", ")", "from", "t", "where", "lower(", "count(*)", "as", "x", "'it''s'", "E'\\''", "$$ ; evil() $$", "/* ; evil() */", "-- evil()\n", "\"q\"", "with", "recursive",
    "union all", "values", "(1)", "join", "on", "group by", "rollup", "cube", "order by", "over", "filter", "within group", "(select 1)", "distinct on (a)", "operator(pg_catalog.+)", "::", "numeric(3)", "[", "]", ".", "for", "materialized",
    "not", "insert", "update", "delete from t", "set", "set (", "on conflict (", "do nothing", "case when", "then", "end", "explain", "table", "(", ")", "json_table(", "columns (", "'$'", "by", "sets", "grouping", "limit", "tablesample", "ordinality"].freeze
  HOSTILE = ["evil(1)", "evil (1)", "\"evil\"(1)", "app.evil(1)", "into z", "; select 2", "; set role x"].freeze

  chaos "random mixtures of statements"
  def test_no_mixture_is_a_read_that_should_be_none
    random = Random.new(ENV.fetch("SEED", 6).to_i)
    reads = 0
    20_000.times do
      parts = Array.new(random.rand(1..14)) { FRAGMENTS.sample(random: random) }
      parts.unshift("select") if random.rand < 0.7
      harmless = CLASSIFIER.send(:classify, parts.join(" "))
      reads += 1 if harmless.kind == :read
      at = random.rand(1..parts.size)
      hostile = HOSTILE.sample(random: random)
      sql = [*parts[0...at], hostile, *parts[at..]].join(" ")
      classification = CLASSIFIER.send(:classify, sql)
      next unless classification.kind == :read
      next if hostile.include?("(") && alias_or_type?(parts[0...at])
      assert hostile.start_with?(";") && parts[0...at].all? { |part| part.start_with?("--", "/*") }, sql
    end
    assert_operator reads, :>, 50
  end

  # Where no expression is allowed, evil(1) is an alias or a type.
  def alias_or_type?(before)
    rest = before.join(" ").gsub("/* ; evil() */", " ").gsub("-- evil()\n", " ").rstrip
    rest.match?(/(\bas|::|\btable|\breferences|\bwith|\brecursive|\)|\.)\z/)
  end

  def test_random_bytes_do_no_harm
    random = Random.new(6)
    2_000.times do
      bytes = random.bytes(random.rand(0..40))
      [bytes, bytes.dup.force_encoding("UTF-8"), "select #{bytes.unpack("C*").map { |byte| (32 + byte % 95).chr }.join}"].each { |sql| refute_nil CLASSIFIER.call(sql).kind }
    end
  end
end
