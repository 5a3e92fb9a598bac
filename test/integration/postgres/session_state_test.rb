# frozen_string_literal: true

# slow: it asks for hundreds of settings

require "test_helper"
require_relative "../../support/database"

# Session state, and what the connection's next user finds of it: nothing. State that neither the SQL nor the server's
# reports reveal is listed in UNSEEN, for the docs.
class PostgresSessionStateTest < Minitest::Test
  include NeverBlockTest::Database

  SCHEMA = <<~SQL
    drop schema if exists state cascade;
    drop role if exists state_tenant;
    create role state_tenant;
    create schema state;
    create table state.items (n int, note text default 'none');
    insert into state.items values (1);
    create function state.keep() returns int language sql as $$ select set_config('app.kept', 'kept', false); select 1 $$;
    create function state.keep_reported() returns int language sql as $$ select set_config('datestyle', 'German', false); select 1 $$;
    create function state.keep_timeout() returns int language plpgsql as $$ begin set statement_timeout to 54321; return 1; end $$;
    create function state.with_setting() returns text language sql set app.kept to 'inside' as $$ select current_setting('app.kept') $$;
    create function state.lock() returns int language plpgsql as $$ begin perform pg_advisory_lock(4712); return 1; end $$;
    create function state.temp() returns int language plpgsql as $$ begin create temp table if not exists kept_table (n int); return 1; end $$;
    create procedure state.keep_in_procedure() language plpgsql as $$ begin perform set_config('app.kept', 'kept', false); end $$;
    create function state.on_insert() returns trigger language plpgsql as $$ begin perform set_config('app.kept', 'kept', false); return new; end $$;
    create function state.on_insert_reported() returns trigger language plpgsql as $$ begin perform set_config('datestyle', 'German', false); return new; end $$;
    create table state.triggered (n int);
    create trigger keeps before insert on state.triggered for each row execute function state.on_insert();
    create table state.reporting (n int);
    create trigger keeps before insert on state.reporting for each row execute function state.on_insert_reported();
    create view state.sly as select state.keep() as n;
    create view state.sly_reported as select state.keep_reported() as n;
    create view state.sly_lock as select state.lock() as n;
    create table state.defaulted (n int default state.keep());
  SQL

  # Each is detected by its SQL, or by the server's reports, and nothing of it remains.
  SEEN = {
    set: "set statement_timeout to 54321", set_custom: "set app.kept to 'kept'", set_session: "set session datestyle to German",
    set_role: "set role state_tenant", set_authorization: "set session authorization state_tenant",
    set_search_path: "set search_path to state", set_time_zone: "set time zone 'Asia/Tokyo'", characteristics: "set session characteristics as transaction read only",
    set_config: "select set_config('app.kept', 'kept', false)", settings_view: "update pg_settings set setting = '54321' where name = 'statement_timeout'",
    set_names: "set names 'LATIN1'", reset: "reset datestyle", seed: "select setseed(0.5)",
    temporary_table: "create temp table kept_table (n int)", temporary_view: "create temp view kept_view as select 1",
    select_into_temp: "select 1 as n into temp kept_table", create_in_pg_temp: "create table pg_temp.kept_table (n int)",
    temporary_sequence: "create temporary sequence kept_sequence",
    advisory_lock: "select pg_advisory_lock(4712)", try_advisory_lock: "select pg_try_advisory_lock_shared(4712)",
    listen: "listen kept", prepare: "prepare kept as select 1", cursor_with_hold: "declare kept cursor with hold for select 1",
    function: "select state.keep()", function_reported: "select state.keep_reported()", function_timeout: "select state.keep_timeout()",
    function_lock: "select state.lock()", function_temp: "select state.temp()", function_with_setting: "select state.with_setting()",
    do_block: "do $$ begin perform set_config('app.kept', 'kept', false); end $$", do_lock: "do $$ begin perform pg_advisory_lock(4712); end $$",
    do_set_role: "do $$ begin execute 'set role state_tenant'; end $$", call: "call state.keep_in_procedure()",
    several: "set app.kept to 'kept'; select 1", load: "load 'plpgsql'", copy: "copy state.items to stdout",
    view_reported: "select n from state.sly_reported", trigger_reported: "insert into state.reporting values (1)",
    lower_in_quotes: %(select "set_config"('app.kept', 'kept', false)), qualified: "select pg_catalog.set_config('app.kept', 'kept', false)",
    unicode: %q{select U&"set\005fconfig"('app.kept', 'kept', false)}, commented: "select /* ' */ set_config/**/('app.kept', 'kept', false) -- '",
    in_a_query: "with kept as (select state.keep() as n) select n from kept", explained: "explain analyze select state.keep()",
    create_table_as: "create table if not exists state.made as select state.keep()", table_function: "select * from state.keep() as t (n)",
    large_object: "select lo_open(lo_create(0), 131072)", snapshot: "select pg_export_snapshot()"
  }.freeze

  # The catalogue tells that they reach user-defined functions.
  REACHING = {
    view: "select n from state.sly", trigger: "insert into state.triggered values (1)", default: "insert into state.defaulted default values",
    view_lock: "select n from state.sly_lock"
  }.freeze

  # Named shareable by mistake: with `audit_settings:` the audit finds custom settings, and it always finds locks.
  NAMED = %w[state.keep state.lock state.on_insert].freeze

  PROBE = <<~SQL
    select concat_ws(' ',
      (select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where source = 'session'),
      nullif(current_setting('app.kept', true), ''), 'users=' || current_user || '/' || session_user,
      (select 'channels=' || string_agg(c, ',') from pg_listening_channels() c),
      (select 'prepared=' || string_agg(name, ',') from pg_prepared_statements where name !~ '^nb[0-9]+$'),
      (select 'cursors=' || string_agg(name, ',') from pg_cursors where name <> ''),
      (select 'locks=' || count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() having count(*) > 0),
      (select 'temp=' || string_agg(relname, ',') from pg_class where relnamespace = pg_my_temp_schema()))
  SQL

  WAYS = {
    exec: ->(database, sql) { database.exec(sql) },
    with_parameters: ->(database, sql) { database.exec(sql, []) },
    connect: ->(database, sql) { database.connect { |connection| connection.exec(sql) } },
    prepared: ->(database, sql) { database.connect { |connection| connection.prepare("p", sql) && connection.exec_prepared("p") } },
    transaction: ->(database, sql) { database.transaction { |connection| connection.exec(sql) } },
    rolled_back: ->(database, sql) { database.transaction { |connection| connection.exec(sql) && raise("back") } },
    native: ->(database, sql) { database.connect { |connection| connection.send_query(sql) && (nil while connection.get_result) } }
  }.freeze

  WAYS.each do |way, run|
    define_method(:"test_nothing_remains_by_#{way}") do
      remains = {**SEEN, **REACHING}.to_h { |name, sql| [name, after(run, sql)] }
      assert_empty remains.reject { |_, (difference, _)| difference.nil? }.transform_values(&:first)
    end
  end

  # DISCARD ALL keeps the seed.
  def test_a_seed_does_not_reach_the_next_user
    with_database(connections: 1) do |database|
      in_loop do
        chosen = database.connect { |connection| connection.exec("select setseed(0.5)") && one(connection.exec("select random()")) }
        database.connect { |connection| connection.exec("select setseed(0.5)") }
        refute_equal chosen, one(database.exec("select random()"))
      end
    end
  end

  def test_functions_that_are_named_shareable_are_trusted
    remains = REACHING.transform_values { |sql| after(WAYS[:exec], sql, shareable_functions: NAMED) }
    assert_equal REACHING.keys, remains.reject { |_, (difference, _)| difference.nil? }.keys
  end

  def test_the_audit_sees_it
    remains = REACHING.transform_values { |sql| after(WAYS[:exec], sql, shareable_functions: NAMED, audit: true, audit_settings: ["app.kept"]) }
    assert_empty remains.reject { |_, (difference, _)| difference.nil? }.transform_values(&:first)
  end

  private

  def setup
    super
    ask(SCHEMA)
  end

  # Drops views and functions that would make other tests' statements of the same names unshareable.
  def teardown = (ask("drop schema if exists state cascade") unless skipped?)

  # @return [Array(String, String)] state that the next user finds on the one connection and not on a new one
  def after(run, sql, **options)
    with_database(connections: 1, **options) do |database|
      in_loop do
        before = on_a_new_one(PROBE)
        outcome(NB.spawn { run.call(database, sql) })
        pass_until("the cleaning after #{sql}") { database.stats.values_at(:held, :in_flight).all?(&:zero?) }
        found = one(database.connect { |connection| connection.exec(PROBE) })
        [(found unless found == before), sql]
      end
    end
  end
end
