# frozen_string_literal: true

require "test_helper"
require_relative "../../support/reaching"

# Functions that statements reach without naming them leave no state for other fibers. The snapshot that tells which
# functions those are is tested in postgres/reach_catalogue_test.rb.
class PostgresReachIntegrationTest < Minitest::Test
  include NeverBlockTest::Reaching

  # Objects that reach sly(), which changes a setting of its session: the definition, and a statement that uses it.
  LEAKS = {
    view: ["create view a_view as select sly() as said", "select * from a_view"],
    nested_view: ["create view inner_view as select sly() as said; create view outer_view as select * from inner_view", "select count(said) from outer_view"],
    quoted_view: [%(create view "A ""quoted"" view" as select sly() as said), %(select * from public . "A ""quoted"" view")],
    long_name: ["set client_min_messages to warning; create view #{"v" * 70} as select sly() as said", "select * from #{"v" * 63}x"],
    view_of_a_built_in: ["create view built_in_view as select set_config(name, value, false) from sly_setting", "select * from built_in_view"],
    writable_view_of_settings: ["create view my_settings as select * from pg_settings", "update my_settings set setting = (select value from sly_setting) where name = (select name from sly_setting)"],
    policy: ["create table guarded as select 1 as id; alter table guarded enable row level security; create policy one on guarded using (sly() is not null)", "select * from guarded"],
    policy_of_a_built_in: ["create table barred as select 1 as id; alter table barred enable row level security; " \
      "create policy one on barred using ((select set_config(name, value, false) from sly_setting) is not null)", "select * from barred"],
    computed_column: ["create function said(plain) returns text language sql as 'select sly()'", "select plain.said from plain"],
    computed_column_of_a_row: ["create function told(plain, int default 1) returns text language sql as 'select sly()'", "select (p).told from plain p"],
    computed_column_of_a_value: ["create function said_of(int) returns text language sql as 'select sly()'", "select x.said_of from generate_series(1, 1) x"],
    operator: ["create function op(int, text) returns text language sql as 'select sly()'; create operator === (leftarg = int, rightarg = text, function = op)", "select 1 === 'a'"],
    operator_by_keyword: ["create function alike(text, int) returns boolean language sql as 'select sly() is null'; create operator ~~ (leftarg = text, rightarg = int, function = alike)",
      "select 'a'::text like 5"],
    operator_before_a_sign: ["create function same(date, int) returns boolean language sql as 'select sly() is null'; create operator = (leftarg = date, rightarg = int, function = same)",
      "select current_date=-1"],
    built_in_by_another_name: ["create function configure(text, text, boolean) returns text language internal as 'set_config_by_name'; create view configuring as select configure(name, value, false) from sly_setting",
      "select * from configuring"],
    overload: ["create function lower(int) returns text language sql as 'select sly()'", "select lower(5)"],
    aggregate: ["create function summed(text, text) returns text language sql as 'select sly()'; create aggregate sum(text) (sfunc = summed, stype = text)", "select sum(name) from plain"],
    domain: ["create domain checked as text check (sly() is not null)", "select 'a'::checked"],
    domain_in_a_row: ["create domain inner_checked as text check (sly() is not null); create type pair as (a inner_checked, b int)", "select '(a,1)'::pair"],
    domain_in_a_view: ["create domain seen_checked as text check (sly() is not null); create view casting as select name::seen_checked as name from plain", "select * from casting"],
    cast_of_a_type: ["create type mood as enum ('glad'); create function mooded(mood) returns int language sql as 'select length(sly())'; create cast (mood as int) with function mooded(mood); " \
      "create table moods as select 'glad'::mood as mood", "select mood::int from moods"],
    support_function_of_an_index: ["create function compared(text, text) returns int immutable language plpgsql as $$ begin perform sly(); return bttextcmp($1, $2); end $$; " \
      "create operator class sly_ops for type text using btree as operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >, function 1 compared(text, text); " \
      "create table ordered as select n::text as name from generate_series(1, 5000) n; create index on ordered (name sly_ops); analyze ordered", "select * from ordered where name = '7'"],
    trigger: ["create table triggered (id int); create trigger one before insert on triggered for each row execute function sly_trigger()", "insert into triggered values (1)"],
    trigger_of_a_partition: ["create table parted (id int) partition by list (id); create table part partition of parted default; " \
      "create trigger one before insert on part for each row execute function sly_trigger()", "insert into parted values (1)"],
    trigger_by_a_foreign_key: ["create table parent (id int primary key); create table child (id int references parent on delete cascade); insert into parent values (1), (2); " \
      "insert into child values (1), (2); create trigger one before delete on child for each row execute function sly_trigger()", "delete from parent"],
    default: ["create table defaulted (id int, said text default sly())", "insert into defaulted (id) values (1)"],
    default_of_a_domain: ["create domain filled as text default sly(); create table filling (id int, said filled)", "insert into filling (id) values (1)"],
    check: ["create table limited (id int check (sly() is not null))", "insert into limited values (1)"],
    index: ["create function indexed(int) returns text immutable language sql as 'select sly()'; create table listed (id int); create index on listed (indexed(id))", "insert into listed values (1)"],
    rule: ["create table ruled (id int); create rule one as on insert to ruled do also select sly()", "insert into ruled values (1)"],
    table_to_xml: ["create view a_view as select sly() as said; create view dumped as select table_to_xml('a_view'::regclass, true, false, '')::text as said", "select * from dumped"]
  }.freeze

  SETTINGS = {"app.tenant" => "leak", "work_mem" => "77kB"}.freeze

  LEAKS.each do |what, (definitions, statement)|
    define_method(:"test_#{what}") do
      ask(definitions)
      SETTINGS.each { |name, value| assert_nothing_left(name, value, statement) }
      assert_match(/runs alone, and its connection is reset after it: it (uses|calls) /, logged.join)
    end
  end

  # A cast between two built-in types may be applied implicitly, anywhere.
  def test_a_cast_of_built_in_types
    ask("create function numbered(text) returns int language sql as 'select length(sly())'; create cast (text as int) with function numbered(text) as assignment")
    assert_nothing_left("app.tenant", "leak", "select name::int from plain")
  end

  def test_an_event_trigger
    ask("create function on_definition() returns event_trigger language plpgsql as $$ begin perform public.sly(); end $$; create event trigger one on ddl_command_end execute function on_definition()")
    assert_nothing_left("app.tenant", "leak", "alter table own.notes set (fillfactor = 90)")
  end

  # In a transaction, which holds its connection no longer than it lasts; in a block of connect; outside of a loop.
  def test_a_transaction
    ask(LEAKS[:trigger][0])
    set("app.tenant", "leak")
    reading do |database|
      in_loop do
        database.transaction { |connection| connection.exec("insert into triggered values (1)") }
        database.connect do |connection|
          connection.exec("begin")
          connection.exec("insert into triggered values (1)")
          connection.exec("rollback")
          assert_nil connection.leased_for
        end
        assert_equal [nil], settings(database, "app.tenant")
      end
      2.times { database.exec("insert into triggered values (1)") }
      assert_nil one(database.exec("select nullif(current_setting('app.tenant', true), '')"))
      in_loop { assert_equal [nil], settings(database, "app.tenant") }
    end
  end

  # All operations of a model: its reads use the view, its writes fire the trigger, in Active Record's transactions.
  def test_active_record
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require "neverblock/active_record"
    require "neverblock/postgres/databases"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ask("create table notes (id serial primary key, name text); create view seen_notes as select *, sly() as said from notes; grant all on sequence notes_id_seq to #{ROLE}; " \
      "create trigger one before insert on notes for each row execute function sly_trigger()")
    ask("grant all on notes, seen_notes to #{ROLE}")
    set("app.tenant", "leak")
    NeverBlock::Postgres::Databases.log = ->(line, _level) { logged << line }
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: @database, host: server.folder, port: server.port, username: ROLE, connections: 3, checkout_timeout: 60,
      shareable_functions: %w[current_setting])
    notes, seen = %w[notes seen_notes].map { |table| Class.new(ActiveRecord::Base) { self.table_name = table } }
    in_loop do
      found = NB.concurrently(30.times.to_a, limit: 10) do |n|
        notes.create!(name: "one") if n % 3 == 0
        2.times { seen.where(name: "one").count }
        notes.connection_pool.with_connection { |connection| connection.select_value("select nullif(current_setting('app.tenant', true), '')") }
      end
      assert_equal [nil], found.uniq
      assert_equal 10, notes.count
      assert_empty logged.grep(/session state was left/)
      assert_equal 1, logged.grep(/uses view seen_notes, which calls function sly/).size
    end
  ensure
    NeverBlock::Postgres::Databases.log = nil if defined?(NeverBlock::Postgres::Databases)
    ActiveRecord::Base.remove_connection if defined?(ActiveRecord)
  end

  def test_a_function_that_is_named_shareable_is_shared
    ask("create function own.price(int) returns int language sql as 'select 1'; create view priced as select own.price(1)")
    [[], ["price"], ["own.price"], ["shop.price"]].each do |functions|
      with_database(connections: 2, shareable_functions: functions) do |database|
        in_loop { assert_equal functions.any? && functions != ["shop.price"], shared?(database, "select * from priced"), functions }
      end
    end
    assert_match(/it uses view priced, which calls function own.price\(integer\): name that in shareable_functions if/, logged.first)
  end

  def test_a_statement_that_reaches_no_function_is_shared
    ask("create function never() returns int language sql as 'select 1'; create materialized view counted as select sly() as said, 1 as n; " \
      "create function text_of(plain) returns text language sql as 'select 1::text'; create table limited (id int check (id > 0), at timestamptz default now(), name citext); " \
      "create type span as range (subtype = float8, subtype_diff = float8mi); create table spans as select span(1, 2) as span")
    with_database(connections: 2) do |database|
      in_loop do
        ["select * from plain", "select * from plain_view", "select id from plain where code = 'ONE' and code like 'o%' and data ? 'a'", "select * from counted",
          "select 'a'::citext = 'A'", "select p.name, lower(p.name) from plain p", "select * from limited order by name", "select * from spans"].each { |sql| assert shared?(database, sql), sql }
      end
    end
    assert_empty logged
  end

  def test_reads_of_what_only_writes_reach_are_shared
    ask(LEAKS[:trigger][0])
    with_database(connections: 2, multiplex: :all) do |database|
      in_loop do
        assert shared?(database, "select * from triggered")
        assert shared?(database, "delete from own.notes")
        refute shared?(database, "insert into triggered values (1)")
      end
    end
  end

  # State that a reset doesn't undo.
  def test_state_that_survives_a_reset_closes_the_connection
    ask("create function hold_on() returns text language sql as 'select pg_advisory_lock(4712)::text'; create view holding as select hold_on()")
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("select * from holding")
        pass_until("its end") { ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4712") == "0" }
        assert_match(/session state was left on a shared connection, which is closed: advisory lock .*It was left by: select \* from holding/, logged.join)
      end
    end
  end

  # No reset undoes the seed.
  def test_a_seed_that_a_view_sets_ends_with_its_connection
    ask("create view seeding as select setseed(0.5) is null as seeded")
    with_database(connections: 1) do |database|
      in_loop do
        chosen = database.connect { |connection| connection.exec("select setseed(0.5)") && one(connection.exec("select random()")) }
        database.exec("select * from seeding")
        refute_equal chosen, one(database.exec("select random()"))
      end
    end
  end

  # Its statements are not parsed again; the session defaults are set again.
  def test_names_of_prepared_statements_survive_a_reset
    ask(LEAKS[:view][0])
    set("timezone", "Europe/Paris")
    with_database(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.configure { connection.exec("set intervalstyle to 'iso_8601'") }
          connection.prepare("known", "select $1::int")
          connection.exec_prepared("known", [1])
          real = physical(database).first
          refute real.names.empty?
          connection.exec("select * from a_view")
          assert_equal %w[1 iso_8601], [one(connection.exec_prepared("known", [1])), one(connection.exec("show intervalstyle"))]
          assert_equal [[real], false], [physical(database), real.names.empty?]
        end
      end
    end
  end

  private

  # Several fibers execute it, and several read the setting on any connections.
  def assert_nothing_left(name, value, statement)
    set(name, value)
    reading do |database|
      in_loop do
        expected = settings(database, name)
        seen = []
        over = false
        reader = NB.spawn { seen |= settings(database, name) until over }
        NB.concurrently(6.times.to_a, limit: 3) { database.exec(statement) }
        over = true
        reader.value
        assert_equal expected, seen | settings(database, name)
        refute_includes expected, value
      end
    end
  end
end
