# frozen_string_literal: true

require "test_helper"
require_relative "../../support/records"

# PostgreSQL fixes the types of parameters when it parses a statement. When a column becomes a timestamp with time zone,
# a name that was parsed before would drop the parameter's zone, and find another row without an error.
class PostgresTypeChangesTest < Minitest::Test
  include NeverBlockTest::Records

  TEXT = "select what from nb_events where at = $1"
  BEFORE = "2026-01-01 05:00:00"       # "five", before and after
  AFTER = "2026-01-01 05:00:00+05:00"  # "new year", where the zone counts
  ALTER = "alter table nb_events alter column at type timestamptz using at at time zone 'UTC'"

  def setup
    super
    ask(<<~SQL)
      drop table if exists nb_events;
      create table nb_events (at timestamp, what text);
      insert into nb_events values ('2026-01-01 00:00', 'new year'), ('2026-01-01 05:00', 'five');
    SQL
  end

  def test_parameters_of_a_text_are_of_the_types_that_there_are
    with_database(connections: 2) do |database|
      in_loop do
        assert_equal "five", one(database.exec(TEXT, [BEFORE]))
        ask(ALTER) # as another program
        assert_equal "new year", one(database.exec(TEXT, [AFTER]))
      end
    end
  end

  def test_a_definition_by_another_fiber_outdates_names
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          prepared(connection)
          NB.spawn { database.exec(ALTER) }.join
          assert_equal ["new year"], found(connection)
        end
      end
    end
  end

  def test_a_definition_among_several_statements_outdates_names
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          prepared(connection)
          database.exec("select 1; #{ALTER}")
          assert_equal ["new year"], found(connection)
        end
      end
    end
  end

  def test_a_definition_in_a_transaction_outdates_names_there_and_at_its_end
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          prepared(connection)
          database.transaction do |other|
            other.prepare("its own", TEXT)
            assert_equal "five", one(other.exec_prepared("its own", [BEFORE]))
            other.exec(ALTER)
            assert_equal "new year", one(other.exec_prepared("its own", [AFTER]))
          end
          assert_equal ["new year"], found(connection)
        end
      end
    end
  end

  def test_a_procedure_outdates_names
    ask("create or replace procedure nb_alter() language sql as $$ #{ALTER} $$")
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          prepared(connection)
          database.exec("call nb_alter()")
          assert_equal ["new year"], found(connection)
        end
      end
    end
  end

  # As with an exclusive connection: a statement prepared after the change is parsed after it.
  def test_a_statement_prepared_after_another_program_s_definition
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          prepared(connection)
          ask(ALTER)
          connection.reset
          connection.prepare("again", TEXT)
          assert_equal ["new year"], found(connection, "again")
          database.connect do |other|
            other.prepare("events", TEXT)
            assert_equal ["new year"], found(other)
          end
        end
      end
    end
  end

  {reset: :reset!, reconnect: :reconnect!, clear_cache: :clear_cache!}.each do |what, method|
    define_method("test_active_record_after_#{what}") do
      with_adapter do |adapter|
        ask(ALTER)
        adapter.public_send(method)
        assert_equal "new year", selected(adapter, AFTER)
      end
    end
  end

  def test_an_adapter_of_active_record_that_is_new
    with_adapter do |adapter, items|
      ask(ALTER)
      assert_equal "new year", NB.spawn { items.with_connection { |other| selected(other, AFTER) } }.value
    end
  end

  def test_a_migration_of_active_record
    with_adapter do |adapter, items|
      NB.spawn { items.transaction { items.lease_connection.change_column(:nb_events, :at, :timestamptz, using: "at at time zone 'UTC'") } }.join
      assert_equal "new year", selected(adapter, AFTER)
    end
  end

  def test_a_migration_of_sequel
    skip "sequel is not among the gems here" unless Gem.loaded_specs.key?("sequel")
    require "sequel"
    in_loop do
      db = Sequel.connect(NeverBlockTest::Database.server.url.sub("postgresql:", "neverblock-postgres:"), connections: 2, keep_reference: false)
      found = db["select what from nb_events where at = :at", at: :$at].prepare(:select, :nb_found)
      assert_equal [{what: "five"}], found.call(at: BEFORE)
      db.alter_table(:nb_events) { set_column_type :at, :timestamptz, using: Sequel.lit("at at time zone 'UTC'") }
      assert_equal [{what: "new year"}], found.call(at: AFTER)
      db.disconnect
    end
  end

  private

  # @yieldparam adapter [ActiveRecord::ConnectionAdapters::AbstractAdapter] that knows the type before
  # @yieldparam items [Class] whose pool it is of
  def with_adapter
    with_items(connections: 2) do |items|
      items.with_connection do |adapter|
        assert_equal "five", selected(adapter, BEFORE)
        yield adapter, items
      end
    end
  end

  def prepared(connection)
    connection.prepare("events", TEXT)
    assert_equal ["five"], found(connection, param: BEFORE)
  end

  # Runs it in many fibers, and so on several real connections.
  def found(connection, name = "events", param: AFTER)
    NB.concurrently(30.times.to_a, limit: 30) { one(connection.exec_prepared(name, [param])) }.uniq
  end

  def selected(adapter, param) = adapter.exec_query(TEXT, "SQL", [ActiveRecord::Relation::QueryAttribute.new("at", param, ActiveRecord::Type::String.new)], prepare: true).rows.dig(0, 0)
end
