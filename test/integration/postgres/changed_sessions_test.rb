# frozen_string_literal: true

require "test_helper"
require_relative "../../support/shared_statements"

# What happens to a connection whose session has changed: by a function, a wrongly classified statement, a lease.
class PostgresChangedSessionsTest < Minitest::Test
  include NeverBlockTest::SharedStatements

  # Tags of statements that leave session state, or begin a transaction.
  TELLING = {
    "SET work_mem TO '7MB'" => "SET", "RESET work_mem" => "RESET", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY" => "SET",
    "BEGIN" => "BEGIN", "START TRANSACTION" => "START TRANSACTION", "LISTEN sharing" => "LISTEN", "PREPARE sharing AS SELECT 1" => "PREPARE",
    "DECLARE sharing CURSOR WITH HOLD FOR SELECT 1" => "DECLARE CURSOR", "UNLISTEN *" => "UNLISTEN", "DEALLOCATE ALL" => "DEALLOCATE ALL",
    "DISCARD ALL" => "DISCARD ALL", "LOAD 'plpgsql'" => "LOAD", "DO $$ begin end $$" => "DO", "CALL sharing.procedure()" => "CALL"
  }.freeze

  # While its duration was learnt, the function changed nothing.
  def test_results_behind_the_change_of_a_reported_setting_are_not_delivered
    with_database(connections: 1, shareable_functions: ["sharing.shift"]) do |database|
      in_loop do
        learn(database, leak = "select n from sharing.sly", read = "select 2 as behind")
        pid = physical(database).first.pid
        ask("update sharing.flag set shifts = true")
        send_together(database, 6)
        leaking, *behind = in_one_turn([leak, *[read] * 5]) { |sql| one(database.exec(sql)) }
        assert_equal "1", leaking.value
        assert_equal [NeverBlock::Postgres::OutcomeUnknown] * 5, behind.map { |task| outcome(task).class }
        ended(pid)
        assert_match(/\Aa shared statement has changed its session: TimeZone was "[^"]+" and is "Asia\/Tokyo"\. The connection is closed\./, logged.first)
        assert_includes logged.first, leak.inspect
        assert_equal 1, logged.size
        refute_equal "Asia/Tokyo", one(database.exec("show timezone"))
      end
    end
  end

  TELLING.each do |sql, tag|
    %i[read write].each do |kind|
      define_method(:"test_the_tag_of_#{sql[/\A\w+( SESSION)?/].downcase.tr(" ", "_")}_as_a_#{kind}") { closed_for(sql, tag, kind:) }
    end
  end

  # Would detect a classifier that takes a write for a read.
  def test_the_tag_of_a_write_that_was_taken_for_a_read = closed_for(INSERT, "INSERT 0 1", kind: :read)

  def test_tags_of_writes_close_nothing
    with_database(connections: 1, multiplex: :all) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        [
          INSERT, "update sharing.items set n = n + 1", "delete from sharing.items", "create table sharing.made (n int)", "create index on sharing.made (n)",
          "alter table sharing.made add s text", "comment on table sharing.made is 'made'", "truncate sharing.made", "analyze sharing.made",
          "create table sharing.copied as select 1 as n", "with gone as (delete from sharing.items returning n) select * from gone",
          "select n from sharing.items for update", "grant select on sharing.made to public", "drop table sharing.made", "refresh materialized view sharing.made",
          "merge into sharing.items i using (select 1 as n) s on i.n = s.n when not matched then insert values (s.n)"
        ].each do |sql|
          run_shared(database, sql, kind: :write)
        rescue PG::SyntaxError, PG::UndefinedTable
          nil # MERGE needs PostgreSQL 15, and the view doesn't exist
        end
        assert_equal [pid], physical(database).map(&:pid)
        assert_empty logged
      end
    end
  end

  # The library can't know what the user did with it.
  def test_a_connection_that_user_s_code_had_in_its_hands_is_closed
    with_database(connections: 1) do |database|
      in_loop do
        [
          ->(connection) { connection.socket_io },
          ->(connection) { connection.send_query("select 1") },
          ->(connection) { connection.send_query("select 1") && connection.get_last_result },
          ->(connection) { connection.transaction { connection.socket_io } }
        ].each do |touch|
          database.exec("select 1")
          pid = physical(database).first.pid
          database.connect do |connection|
            touch.call(connection)
            assert_equal pid, physical(database).first.pid
            assert_equal "2", one(connection.exec("select 2"))
            assert_equal pid, physical(database).first.pid, "it has it until check-in"
          end
          ended(pid)
          assert_equal "3", one(database.exec("select 3"))
          refute_equal pid, physical(database).first.pid
        end
      end
    end
  end

  # It is reset, which costs less.
  def test_a_connection_that_was_only_leased_is_kept
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        [
          ->(connection) { connection.exec("SET statement_timeout TO 12345") },
          ->(connection) { connection.transaction { connection.exec("select 1") } },
          ->(connection) { connection.exec("create temporary table mine (n int)") },
          ->(connection) { connection.exec("select sharing.keeps('seven')") },
          ->(connection) { connection.copy_data("copy sharing.items to stdout") { nil while connection.get_copy_data } }
        ].each do |lease|
          database.connect { |connection| lease.call(connection) }
          assert_equal "0", one(database.exec("show statement_timeout"))
          assert_equal [pid], physical(database).map(&:pid)
        end
      end
    end
  end

  # A rollback keeps session locks. The next statement in the queue must not be blamed for them.
  def test_the_audit_finds_what_a_rolled_back_transaction_has_left
    with_database(connections: 1, audit: true, shareable_functions: ["sharing.lock"]) do |database|
      in_loop do
        learn(database, read = "select 2 as after")
        pid = physical(database).first.pid
        readers = nil
        error = assert_raises(RuntimeError) do
          database.transaction do |connection|
            connection.exec("insert into sharing.locking values (1)")
            assert_equal 1, session_locks
            readers = Array.new(3) { NB.spawn { one(database.exec(read)) } }
            pass_until("a queue") { database.stats[:queued] == 3 }
            raise "no"
          end
        end
        assert_equal "no", error.message
        assert_equal ["2"] * 3, readers.map { |task| outcome(task) }
        ended(pid)
        assert_equal 0, session_locks
        assert_match(/session state was left on a shared connection, which is closed: advisory lock \S*4714: nil, then "ExclusiveLock"/, logged.first)
        refute_includes logged.first, read
        assert_equal 1, logged.size
      end
    end
  end

  # It isn't closed either if nothing was left.
  def test_a_transaction_that_was_rolled_back_leaves_its_connection_in_place
    with_database(connections: 1, audit: true) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        assert_raises(RuntimeError) { database.transaction { |connection| connection.exec(INSERT) && raise("no") } }
        assert_equal "0", one(database.exec("select count(*) from sharing.items"))
        assert_equal [pid], physical(database).map(&:pid)
        assert_empty logged
      end
    end
  end

  private

  # The only connection sends nothing before it has so many statements, however many turns of the loop that takes.
  def send_together(database, count)
    complete = false
    physical(database).first.define_singleton_method(:flush) do
      NB.pass until complete ||= depth == count
      super()
    end
  end

  def session_locks = ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4714").to_i

  def ended(pid) = pass_until("the end of #{pid}") { ask("select count(*) from pg_stat_activity where pid = #{pid}") == "0" }

  # Runs it as if it had been classified as shareable.
  def run_shared(database, sql, kind:)
    multiplexer(database).run(NeverBlock::Postgres::Statement.new(sql, session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY, kind:))
  end

  def closed_for(sql, tag, kind:)
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        assert_equal tag, run_shared(database, sql, kind:).cmd_status
        assert_equal "4MB", one(database.exec("show work_mem"))
        refute_equal pid, physical(database).first.pid
        ended(pid)
        assert_equal 1, logged.size
        assert_includes logged.first, "#{sql.inspect} answered #{tag}. The connection is closed"
      end
    end
  end
end
