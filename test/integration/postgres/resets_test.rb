# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Settings that a lease has set by name are reset by name, and its statements keep their plans. In doubt, everything is
# discarded.
class PostgresResetsTest < Minitest::Test
  include NeverBlockTest::Database

  TENANT = "select coalesce(nullif(current_setting('app.tenant', true), ''), 'none')"

  # Statements that set something, with a query that shows it.
  SETTINGS = {
    "set app.tenant = 'seven'" => TENANT, "SET SESSION App.Tenant TO 7" => TENANT, %(set "app"."tenant" = 'seven') => TENANT,
    "select set_config('app.tenant', 'seven', false)" => TENANT, "select pg_catalog.set_config('App.Tenant', n::text, false) from generate_series(1, 3) n" => TENANT,
    "set statement_timeout = 54321" => "show statement_timeout", "set search_path = nb_resets, public" => "show search_path",
    "set role nb_resets" => "select current_user || ' ' || session_user", "select set_config('role', 'nb_resets', false)" => "select current_user::text",
    "set application_name = 'nb_other'" => "show application_name", "set session characteristics as transaction read only" => "show default_transaction_read_only",
    "set time zone 'Asia/Tokyo'" => "show timezone", "set work_mem = '7MB'" => "show work_mem"
  }.freeze

  # Statements after which the connection is reset with DISCARD ALL.
  DISCARDED = ["set session characteristics as transaction read only", "set time zone 'Asia/Tokyo'", "set work_mem = '7MB'"].freeze

  def setup
    super
    ask("create schema if not exists nb_resets; do $$ begin create role nb_resets; exception when duplicate_object then null; end $$")
  end

  def test_settings_are_reset
    SETTINGS.each do |sql, shown|
      with_plan do |database, kept|
        before = on_a_new_one(shown)
        held(database) do |connection|
          connection.exec(sql)
          refute_equal before, one(connection.exec_params(shown)), sql
        end
        assert_equal before, one(database.exec(shown)), sql
        assert_equal !DISCARDED.include?(sql), kept.call, sql
      end
    end
  end

  def test_several_settings
    with_plan do |database, kept|
      held(database) do |connection|
        ["set role nb_resets", "set app.tenant = 'seven'", "set app.unit = 'one'", "set lock_timeout = 999", "reset app.unit", "set search_path = nb_resets"].each { |sql| connection.exec(sql) }
        assert_equal "seven", one(connection.exec(TENANT)), "what looks at the session leaves nothing"
      end
      shown = database.exec("show app.tenant; show app.unit; show lock_timeout; show search_path; select current_user") && %w[app.tenant app.unit lock_timeout search_path role].map { |name| one(database.exec("show #{name}")) }
      assert_equal ["", "", "0", '"$user", public', "none"], shown
      refute kept.call, "several statements in one text may have done anything"
    end
  end

  def test_a_set_that_failed
    with_plan do |database, kept|
      held(database) do |connection|
        assert_raises(PG::InvalidParameterValue) { connection.exec("set statement_timeout = 'never'") }
        connection.exec("set statement_timeout = 777")
        assert_raises(PG::InvalidParameterValue) { connection.exec("set statement_timeout = 'never'") }
      end
      assert_equal "0", one(database.exec("show statement_timeout"))
      assert kept.call
      held(database) { |connection| assert_raises(PG::UndefinedObject) { connection.exec("set nb_nothing = 1") } }
      refute kept.call, "there is no such setting, and what was meant is not known"
    end
  end

  def test_a_transaction_that_is_rolled_back
    with_plan do |database, kept|
      held(database) do |connection|
        ["begin", "set app.tenant = 'seven'", "set local app.tenant = 'eight'", "rollback"].each { |sql| connection.exec(sql) }
        assert_equal "none", one(connection.exec(TENANT)), "as PostgreSQL does it"
        ["begin", "set app.tenant = 'seven'", "set local app.tenant = 'eight'", "commit"].each { |sql| connection.exec(sql) }
        assert_equal "seven", one(connection.exec(TENANT))
      end
      assert_equal "none", one(database.exec(TENANT))
      assert kept.call
      held(database) { |connection| ["begin", "set app.tenant = 'seven'"].each { |sql| connection.exec(sql) } }
      assert_equal "none", one(database.exec(TENANT))
      refute kept.call, "it was left open"
    end
  end

  # PostgreSQL truncates long names, and doesn't fold the Kelvin sign to k.
  def test_names_that_mean_another_setting_than_they_seem_to
    long = "app.#{"a" * 70}"
    {"set #{long} = 'seven'" => long[0, 67], "set app.\u212A = 'seven'" => "app.\u212A", %(set app."\u212A" = 'seven') => "app.\u212A"}.each do |sql, name|
      with_plan do |database, _kept|
        held(database) do |connection|
          connection.set_notice_receiver { |_notice| nil }
          connection.exec(sql)
          assert_equal "seven", one(connection.exec("select current_setting('#{name}')")), sql
        end
        assert_equal "", one(database.exec("select current_setting('#{name}')")), sql
      end
    end
  end

  # After its reset the setting is '', so a policy must not treat '' as a tenant: docs/postgres.md.
  def test_a_custom_setting_is_empty_then
    with_plan do |database, kept|
      assert_nil one(database.exec("select current_setting('app.never', true)"))
      held(database) { |connection| connection.exec("set app.never = '1'") }
      assert_equal "", one(database.exec("select current_setting('app.never', true)"))
      assert kept.call
    end
  end

  # A session can't tell a role's default from a value that was left behind.
  def test_a_setting_that_the_role_has
    ask("create role nb_resets_own login; alter role nb_resets_own set app.tenant = 'own'; alter role nb_resets_own set statement_timeout = '1min'")
    with_plan(target: "#{url}&user=nb_resets_own") do |database, kept|
      held(database) { |connection| connection.exec("set statement_timeout = 777") }
      assert_equal ["1min", true], [one(database.exec("show statement_timeout")), kept.call]
      held(database) { |connection| connection.exec("set app.tenant = 'seven'") }
      assert_equal ["own", false], [one(database.exec(TENANT)), kept.call]
    end
  ensure
    ask("drop role if exists nb_resets_own")
  end

  # The setting belongs to all connections with these session defaults.
  def test_a_setting_of_the_session_defaults
    with_database(connections: 1) do |database|
      in_loop do
        connection = database.connection
        connection.configure do
          connection.exec("set search_path to nb_resets")
          connection.exec("set app.tenant = 'all'")
          connection.exec("set statement_timeout = 888")
        end
        shown = -> { ["show search_path", TENANT, "show statement_timeout"].map { |sql| one(connection.exec(sql)) } }
        assert_equal %w[nb_resets all 888ms], shown.call
        connection.check_in
        settle(database)
        plan(connection)
        ["set app.tenant = 'seven'", "set search_path to public", "set statement_timeout = 0", "reset statement_timeout"].each { |sql| connection.exec(sql) }
        connection.check_in
        settle(database)
        refute_empty names(database)
        assert_equal %w[nb_resets all 888ms], shown.call
      end
    end
  end

  # Functions named shareable are trusted, but state other than settings is detected.
  def test_other_session_state
    ask(<<~SQL)
      create or replace function nb_resets.hears() returns int language plpgsql as $$ begin execute 'listen nb_resets'; return 1; end $$;
      create or replace function nb_resets.stores() returns int language plpgsql as $$ begin create temporary table nb_resets_stored as select 1; return 1; end $$;
      create or replace function nb_resets.becomes() returns text language sql as $$ select set_config('role', 'nb_resets', false) $$;
      create or replace function nb_resets.moves() returns text language sql as $$ select set_config('application_name', 'nb_moved', false) $$;
    SQL
    left = {"hears" => "select count(*) from pg_listening_channels()", "stores" => "select count(*) from pg_class where relname = 'nb_resets_stored'", "becomes" => "select current_user"}
    left.each do |function, shown|
      with_plan(shareable_functions: left.keys.map { |name| "nb_resets.#{name}" }) do |database, kept|
        before = on_a_new_one(shown)
        held(database) do |connection|
          connection.exec("set app.tenant = 'seven'")
          connection.exec("select nb_resets.#{function}()")
        end
        refute kept.call, function
        assert_equal before, database.connect { |connection| one(connection.exec(shown)) }, function
      end
    end
    with_plan do |database, kept|
      held(database) { |connection| connection.exec("set app.tenant = 'seven'") && connection.exec("select nb_resets.moves()") }
      refute kept.call, "a function that is not known"
      assert_equal "none", one(database.exec(TENANT))
      assert_equal "nb_#{name[0, 50]}", one(database.exec("show application_name"))
    end
  end

  # A view reaches the function; the SQL doesn't show it.
  def test_a_statement_that_reaches_an_unknown_function
    ask("create or replace function nb_resets.sly() returns text language sql as $$ select set_config('app.other', 'sly', false) $$; create or replace view nb_resets.slyly as select nb_resets.sly()")
    with_plan do |database, kept|
      held(database) { |connection| connection.exec("set app.tenant = 'seven'") && connection.exec("select * from nb_resets.slyly") }
      assert_equal ["none", ""], [one(database.exec(TENANT)), one(database.exec("select current_setting('app.other')"))]
      refute kept.call
    end
  ensure
    ask("drop view if exists nb_resets.slyly; drop function if exists nb_resets.sly()")
  end

  def test_a_statement_that_was_interrupted
    with_plan do |database, kept|
      held(database) do |connection|
        connection.exec("set app.tenant = 'seven'")
        assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.05) { connection.exec("select pg_sleep(60)") } }
      end
      assert_equal "none", one(database.exec(TENANT))
      refute kept.call, "its request to cancel may have met with anything"
    end
  end

  # However a request ends, the next one finds none of its settings, and keeps its own as long as it lasts.
  slow "many requests"
  def test_a_storm_of_requests
    shown = "#{TENANT}, current_setting('search_path'), current_user, current_setting('statement_timeout'), current_setting('timezone'), current_setting('work_mem')"
    new = nil
    sets = ["set app.tenant = 'n'", "select set_config('app.tenant', 'n', false)", "set search_path = tn", "set role nb_resets", "set statement_timeout = 99999", "set timezone = 'Asia/Tokyo'", "set work_mem = '7MB'"]
    ends = [->(_) {}, ->(connection) { connection.exec("reset role; reset search_path") }, ->(connection) { connection.exec("begin") && connection.exec("set app.tenant = 'open'") },
      ->(connection) { connection.exec("select 1 / 0") }, ->(connection) { NB.timeout(0.001) { connection.exec("select pg_sleep(60)") } }, ->(connection) { connection.exec("create temporary table nb_resets_storm (n int)") }]
    with_database(connections: 3) do |database|
      in_loop do
        random = Random.new(Minitest.seed)
        new = database.exec(shown).values
        NB.concurrently((1..400).to_a, limit: 8) do |n|
          database.connect do |connection|
            assert_equal new, connection.exec(shown).values, "seed #{Minitest.seed}"
            chosen = sets.sample(1 + random.rand(3), random:)
            chosen.each { |sql| connection.exec(sql.sub(/(?<=t)n\b|(?<=')n(?=')/, n.to_s)) }
            mine = connection.exec(shown).values
            plan(connection)
            assert_equal [mine, true], [connection.exec(shown).values, mine != new]
            ends.sample(random:).call(connection)
          end
        rescue PG::DivisionByZero, NeverBlock::TimeoutError
          n
        end
        settle(database)
        assert_equal new, database.exec(shown).values
      end
    end
    assert_empty logged.grep_v(/held until check-in|another one/)
  end

  # Under load no connection may ever be idle for long enough for an audit.
  def test_a_reset_is_no_audit
    ask("create or replace function nb_resets.locks() returns int language sql as $$ select pg_advisory_lock(4714)::text; select 1 $$")
    with_plan(shareable_functions: ["nb_resets.locks"]) do |database, _kept|
      database.exec("select nb_resets.locks()")
      held(database) { |connection| connection.exec("set app.tenant = 'seven'") }
      NeverBlock::Postgres::Janitor.run_once
      assert_match(/session state was left on a shared connection, which is closed: advisory lock/, logged.last)
    end
  end

  # The log names the setting, not each of its values.
  def test_the_log_has_a_line_for_each_setting
    with_plan do |database, _kept|
      3.times { |n| held(database) { |connection| connection.exec("set app.tenant = 'secret #{n}'") } }
      assert_equal ["a connection was held until check-in, and is reset, because of: SET app.tenant"], logged.grep(/held/)
    end
  end

  def test_settings_that_a_text_may_leave
    classifier = NeverBlock::Postgres::Classifier.new(server_version: 17)
    left = ->(sql) { NeverBlock::Postgres::Resets.left(classifier.call(sql)) }
    {["app.tenant"] => ["set app.tenant = 1", "select set_config('app.tenant', $1, false)", "select 1 from a, lateral (select set_config('App.tenant', a.c, FALSE)) b",
      "select set_config('app.tenant', 'x', false), set_config('app.tenant', 'y', false), current_setting('app.unit')"],
     [] => ["select current_setting('app.tenant')"],
     nil => ["reset all", "set timezone to 'UTC'", "set datestyle to 'German'", "set session authorization a", "set client_encoding to 'LATIN1'", "set plpgsql = 1", "set work_mem = '1MB'",
       "select set_config('timezone', 'UTC', false)", "select set_config('app.tenant', 'x', false), set_config('app.unit', 'y', false)", "select set_config($1, 'x', false)",
       "select set_config('app.tenant', 'x', $1)", "select set_config('app.tenant', evil(), false)", "select set_config('app.tenant', 'x', false), evil()", "select set_config('app.tenant', 'x', false), pg_advisory_lock(1)",
       "insert into a values (set_config('app.tenant', 'x', false))", "select set_config('app.tenant', 'x', false) for update", "select set_config('app.tenant', 'x', false), txid_current()",
       "declare c cursor with hold for select set_config('app.tenant', 'x', false)", "create table a as select set_config('app.tenant', 'x', false)", "select set_config('app.tenant', 'x', false); select 1",
       "listen a", "create temp table a (n int)", "prepare a as select 1", "set search_path to pg_temp", "set \"a-b\".c = 1", "set app.#{"a" * 64} = 1", "set app.\u212A = 1", "set \u212A.a = 1",
       "select set_config('\u212A.a', 'x', false)", "select set_config('app.\u212A', 'x', false)", "set app.\"a\"\"b\" = 1", "set U&\"app\".a = 1", "select set_config('seed', '0.5', false)"]}.each do |names, texts|
      texts.each { |sql| names.nil? ? assert_nil(left.call(sql), sql) : assert_equal(names, left.call(sql), sql) }
    end
  end

  private

  # @yieldparam database [NeverBlock::Postgres] of one connection, which has a prepared statement
  # @yieldparam kept [Proc] tells whether the statement is still prepared, and prepares it again if not
  def with_plan(**options)
    with_database(connections: 1, **options) do |database|
      in_loop do
        database.exec("select 1")
        again = -> { database.connect { |connection| plan(connection) } }
        again.call
        pid = physical(database).first.pid
        kept = lambda do
          settle(database)
          assert_equal pid, physical(database).first.pid, "it was closed"
          names(database).any?.tap { again.call }
        end
        yield database, kept
      end
    end
  end

  def plan(connection)
    connection.prepare("plan", "select $1::int + 1 as next")
    assert_equal "2", one(connection.exec_prepared("plan", [1]))
  end

  # One request.
  def held(database)
    database.connect { |connection| yield connection }
    settle(database)
  end

  def settle(database) = pass_until("its upkeep") { database.stats[:held] == 0 }

  # @return [Array<String>] names of the statements that were prepared for users, from the server
  def names(database)
    found = physical(database).first.pg
    pass_until("what runs on it") { database.stats[:in_flight] == 0 }
    found.exit_pipeline_mode
    found.exec("select name from pg_prepared_statements where statement like '%as next'").column_values(0)
  ensure
    found.enter_pipeline_mode
  end
end
