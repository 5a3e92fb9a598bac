# frozen_string_literal: true

require "test_helper"
require_relative "../../support/table_locks"

# DEALLOCATE of a stale name doesn't affect the statements that follow on the connection.
class PostgresNamesIntegrationTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  def setup
    super
    ask("create schema if not exists names; create table if not exists names.t as select 1 as n; update names.t set n = 1")
  end

  def test_statements_that_can_not_run_in_a_transaction
    after_a_name_was_given_up do |database|
      assert_equal "VACUUM", database.exec("vacuum names.t").cmd_status
    end
  end

  def test_statements_that_must_precede_any_query
    after_a_name_was_given_up do |database|
      database.transaction do |connection|
        connection.exec("set transaction isolation level serializable")
        assert_equal "serializable", one(connection.exec("show transaction_isolation"))
      end
    end
  end

  # The snapshot of such a transaction is taken after its LOCK.
  def test_a_read_after_a_lock
    after_a_name_was_given_up do |database|
      writer = PG.connect(NeverBlockTest::Database.server.url)
      writer.exec("begin; update names.t set n = 2")
      reader = NB.spawn do
        database.connect do |connection|
          connection.exec("begin isolation level repeatable read")
          connection.exec("lock table names.t in exclusive mode")
          one(connection.exec("select n from names.t")).tap { connection.exec("commit") }
        end
      end
      pass_until("its wait for the lock") { waiting == 1 }
      writer.exec("commit")
      assert_equal "2", reader.value
    ensure
      writer&.close
    end
  end

  # PostgreSQL interprets literals when it parses, with the settings of that moment.
  def test_literals_that_were_read_by_settings_of_a_transaction
    {"timezone" => ["Asia/Tokyo", "select extract(epoch from '2026-01-01 00:00'::timestamptz) + $1::int"], "datestyle" => ["German", "select '02/01/2026'::date + $1::int"],
     "intervalstyle" => ["sql_standard", "select extract(minute from '-1 00:10'::interval) + $1::int"], "array_nulls" => ["off", "select coalesce(array_position('{NULL}'::text[], 'NULL'), 0) + $1::int"],
     "transform_null_equals" => ["on", "select ($1::int = null) is null"], "xmloption" => ["document", "select xmlserialize(content '<a/><b/>'::xml as text) || $1::int"]}.each do |setting, (value, sql)|
      ["set local #{setting} = '#{value}'", "select set_config('a.b', '1', true), set_config('#{setting}', '#{value}', true), set_config('a.c', '1', true)"].each do |set|
        with_database(connections: 1) do |database|
          in_loop do
            first, second = Array.new(2) { database.connection.tap { |connection| connection.prepare("a", sql) } }
            ["begin", set].each { |text| first.exec(text) }
            begin
              first.exec_prepared("a", [0])
            rescue PG::InvalidXmlContent, PG::InvalidXmlDocument
              setting # not part of a document
            end
            first.exec("rollback")
            assert_equal on_a_new_one(sql.sub("$1", "0")), one(second.exec_prepared("a", [0])), set
          end
        end
      end
    end
  end

  # The setting is changed by a trigger, which the SQL doesn't show. Its statement is sent together with BEGIN, or by
  # itself.
  def test_literals_that_were_read_by_settings_of_what_is_not_known
    literals_after { |connection| connection.exec_prepared("b", [1]) }
    literals_after { |connection| connection.exec("select 2") && connection.exec("insert into names.far values (1)") }
    literals_after { |connection| 2.times { |n| connection.exec_prepared("b", [n]) } }
  end

  # A Parse that fails with "0A000" looks like a name with a stale plan.
  def test_a_name_that_the_server_never_had
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        run = ->(connection) { connection.prepare("a", "select distinct n from names.t for update") && connection.exec_prepared("a") }
        assert_raises(PG::FeatureNotSupported) { database.connect(&run) }
        assert_equal "2", one(database.exec("select 2"))
        assert_raises(PG::FeatureNotSupported) { database.connect(&run) }
        assert_equal "3", database.transaction { |connection| one(connection.exec("select 3")) }
        assert_equal "0", one(database.exec("select count(*) from pg_prepared_statements"))
      end
    end
  end

  private

  def literals_after
    ask(<<~SQL)
      create or replace function names.far() returns trigger language plpgsql as $$ begin perform set_config('timezone', 'Asia/Tokyo', true); return new; end $$;
      drop table if exists names.far; create table names.far (n int); create trigger far before insert on names.far for each row execute function names.far();
    SQL
    insert, sql = "insert into names.far values ($1)", "select extract(epoch from '2026-01-01 00:00'::timestamptz) + $1::int"
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        first, second = Array.new(2) { database.connection.tap { |connection| connection.prepare("a", sql) && connection.prepare("b", insert) } }
        first.exec_prepared("b", [1])
        pass_until("its upkeep") { database.stats[:held] == 0 }
        first.exec("begin")
        yield first
        refute_equal on_a_new_one(sql.sub("$1", "0")), one(first.exec_prepared("a", [0]))
        first.exec("commit")
        assert_equal on_a_new_one(sql.sub("$1", "0")), one(second.exec_prepared("a", [0]))
        pass_until("its upkeep") { database.stats[:held] == 0 }
        prepared = database.transaction { |connection| connection.exec("select statement from pg_prepared_statements").column_values(0) }
        assert_includes prepared, insert, "what was parsed before is kept"
      end
    end
  ensure
    ask("drop table if exists names.far; drop function if exists names.far()")
  end

  # @yieldparam database [NeverBlock::Postgres] of one connection; its next statement tells the server of the stale name
  def after_a_name_was_given_up
    with_database(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.prepare("a", "select $1::int + 41")
          connection.exec_prepared("a", [1])
          connection.close_prepared("a")
        end
        assert_equal 1, physical(database)[0].names.given_up
        yield database
        assert_equal "0", one(database.exec("select count(*) from pg_prepared_statements"))
      end
    end
  end
end
