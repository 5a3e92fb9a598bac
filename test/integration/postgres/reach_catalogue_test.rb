# frozen_string_literal: true

require "test_helper"
require "support/at_call"
require_relative "../../support/reaching"

# The snapshot of the catalogue that tells which functions statements reach: when it is read, by which connection, and
# what happens if that fails. The state that those functions leave is in postgres/reach_test.rb.
class PostgresReachCatalogueTest < Minitest::Test
  include NeverBlockTest::AtCall
  include NeverBlockTest::Reaching

  def test_a_definition_of_ours_is_seen_at_once
    set("app.tenant", "leak")
    reading do |database|
      in_loop do
        assert shared?(database, "select * from plain")
        database.exec("create view own.defined as select sly() as said")
        refute shared?(database, "select * from own.defined")
        database.exec("drop view own.defined")
        database.transaction do |connection|
          connection.exec("create view own.defined as select sly() as said")
          connection.exec("select * from own.defined")
        end
        assert_equal [nil], settings(database, "app.tenant")
        refute shared?(database, "select * from own.defined")
      end
    end
  end

  # A request that creates a temporary table doesn't invalidate the catalogue's snapshot for all.
  def test_temporary_tables_and_several_statements_end_no_answer
    with_database(connections: 3) do |database|
      in_loop do
        assert shared?(database, "select * from plain")
        database.connect { |connection| connection.exec("create temp table kept (id int)") }
        database.transaction { |connection| connection.exec("create temporary table kept (id int) on commit drop") }
        database.exec("select 1; select 2")
        refute_predicate catalogue(database), :wanted?
        database.exec("select 1; create view own.defined as select sly() as said")
        assert_predicate catalogue(database), :wanted?
        refute shared?(database, "select * from own.defined")
        database.transaction do |connection|
          connection.exec("drop view own.defined")
          connection.exec("create temporary table kept (id int) on commit drop")
          refute_predicate catalogue(database), :wanted?, "it is not committed"
        end
        assert_predicate catalogue(database), :wanted?
      end
    end
  end

  # Its command tag is SELECT.
  def test_a_materialized_view_is_a_definition
    with_database(connections: 3) do |database|
      in_loop do
        assert shared?(database, "select * from plain")
        database.exec("create materialized view own.made as select 1 as id")
        assert_predicate catalogue(database), :wanted?
      end
    end
  end

  # The catalogue is read between the two phases too, without the change.
  slow "starts a server that has prepared transactions"
  def test_a_definition_is_committed_in_the_second_phase
    NeverBlockTest::PostgresServer.open(max_prepared_transactions: 1) do |server|
      server.query("create view kept as select 1 as id; create function sly() returns int language plpgsql as $$ begin return 1; end $$")
      with_database(connections: 3, target: server.url) do |database|
        in_loop do
          assert shared?(database, "select * from kept")
          database.connect do |connection|
            connection.exec("begin")
            connection.exec("create or replace view kept as select sly() as id")
            connection.exec("prepare transaction 'kept'")
          end
          assert shared?(database, "select 1 as plain")
          database.exec("commit prepared 'kept'")
          refute shared?(database, "select * from kept")
        end
      end
    end
  end

  # Statements that arrive during the read use the old snapshot.
  def test_a_definition_of_others_is_seen_when_the_answer_expires
    with_database(connections: 3) do |database|
      in_loop do
        assert shared?(database, "select * from plain")
        ask("create view defined as select sly() as said")
        assert shared?(database, "select * from defined")
        catalogue(database).expire
        pass_until("the new answer") { !shared?(database, "select * from defined") }
      end
    end
  end

  def test_an_unchanged_catalogue_is_not_read_whole_again
    with_database(connections: 3) do |database|
      in_loop do
        assert shared?(database, "select * from plain")
        again = readings do
          NeverBlock::Postgres::Janitor.run_once # as it does each minute
          assert catalogue(database).wanted?
          pass_until("the new answer") { shared?(database, "select * from plain") && !catalogue(database).wanted? }
        end
        changed = readings do
          database.exec("create table own.another (id int)")
          assert shared?(database, "select * from plain")
        end
        reaching = readings do
          database.exec("create view own.reaching as select sly() as said")
          refute shared?(database, "select * from own.reaching")
        end
        assert_equal [0, 0, 1], [again, changed, reaching]
      end
    end
  end

  # The connection used for the query has the encoding of its session defaults.
  def test_a_name_in_another_encoding
    ask(%(create view "café" as select sly() as said))
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.configure { connection.set_client_encoding("LATIN1") }
          connection.exec("select 1")
        end
        refute shared?(database, %(select * from "café"))
      end
    end
  end

  # The query has a long time limit of its own.
  def test_a_time_limit_of_statements_is_none_for_the_question
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.configure { connection.exec("set statement_timeout to '50s'") }
          limits = Array.new(2) { one(multiplexer(database).send(:question, "show statement_timeout", connection.session_defaults)) }
          assert_equal %w[1min 1min 50s], [*limits, one(connection.exec("show statement_timeout"))]
        end
      end
    end
  end

  # PUBLIC's rights on the catalogue are revoked.
  def test_where_the_catalogue_cannot_be_read_nothing_is_shared
    ask("revoke select on pg_catalog.pg_rewrite from public")
    with_database(connections: 2) do |database|
      in_loop do
        refute shared?(database, "select * from plain")
        assert_match(/reset after it: the catalogue could not be read: ERROR:  permission denied for table pg_rewrite/, logged.first)
        ask("grant select on pg_catalog.pg_rewrite to public")
        pass_until("the answer") { shared?(database, "select * from plain") }
      end
    end
  end

  # Regression: an adapter's own error for an unreachable server ended the loop.
  def test_a_question_that_finds_no_connection_is_told_and_asked_again
    unreachable = Class.new(StandardError)
    refuses = false
    with_database(connections: 2, target: -> { refuses ? raise(unreachable, "nothing listens") : PG.connect(url) }) do |database|
      in_loop do
        database.exec("select 1") # so that there is a snapshot
        database.transaction do |connection|
          connection.exec("select 1")
          physical(database).reject(&:holder).each(&:close)
          multiplexer(database).pool.router.rest
          refuses = true
          catalogue(database).expire
          connection.exec("select 3")
          pass_until("the question") { logged.grep(/could not be read again.*nothing listens/).any? }
          refuses = false
          connection.exec("select 1")
        end
        assert_equal "2", one(database.exec("select 2"))
      end
    end
  end

  private

  def catalogue(database) = multiplexer(database).catalogue

  # @return [Integer] how often the block has the whole catalogue read
  def readings(&) = calls(NeverBlock::Postgres::Dependencies.singleton_class, :question, &)
end
