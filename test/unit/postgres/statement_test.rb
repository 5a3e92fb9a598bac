# frozen_string_literal: true

require "test_helper"
require "support/fake_connections"

# A statement's states, by its diagram. With a server: test/integration/postgres/states_test.rb.
class PostgresStatementTest < Minitest::Test
  include NeverBlockTest::FakeConnections

  Connection = Struct.new(:pushed) do
    def push(statement)
      statement.connection = self
      self.pushed = statement
    end
  end

  def test_it_is_placed_sent_and_done
    in_loop do
      one = statement("select 1")
      states = [one.state]
      one.granted(connection = Connection.new)
      states << one.state
      one.sending(false)
      one.sent_at = now
      states << one.state
      one.took(result = NeverBlockTest::FakePg.ok)
      one.finish
      assert_equal %i[unplaced placed sent done], [*states, one.state]
      assert_same one, connection.pushed
      assert_same result, one.value
      assert_match(/Statement done "select 1"/, one.inspect)
    end
  end

  def test_an_abandoned_statement_is_done_when_its_result_is_dropped
    in_loop do
      one = sent("select 1")
      one.abandon
      assert_equal :abandoned, one.state
      assert_nil one.owner
      one.finish
      assert_equal :done, one.state
    end
  end

  def test_a_statement_cancelled_for_others_looks_for_a_connection_where_it_is_alone
    in_loop do
      one = sent("select pg_sleep(1)")
      one.started_at = 10.0
      one.read_at = 12.0
      one.took(failure("57014"))
      assert_predicate one, :cancelled?
      one.displace
      assert_equal [:unplaced, true, 4.0], [one.state, one.exclusive?, one.patience]
      refute_predicate one, :cancelled?
      assert one.park(0), "displace has woken it"
    end
  end

  def test_only_what_a_cancel_undoes_is_cancelled_for_others
    in_loop do
      {"update t set a = 1" => true, " ( select 1 )" => true, "create index concurrently i on t (a)" => false, "call p()" => false, "select \xFF" => true}.each do |sql, expected|
        assert_equal expected, statement(sql, kind: :write).displaceable?, sql
      end
      refute_predicate NeverBlock::Postgres::Statement.orphan("select 1"), :displaceable?
    end
  end

  # A function behind a view or a trigger may have had effects elsewhere, as by dblink.
  def test_what_may_act_outside_of_its_transaction_is_not_cancelled_for_others
    in_loop do
      %i[read write].each do |kind|
        refute_predicate statement("select * from v", kind:, doubt: "it uses view v, which calls function f()"), :displaceable?
        refute_predicate statement("select * from v", kind:, judged: false), :displaceable?, "nobody has looked"
      end
    end
  end

  def test_a_missing_name_is_sent_again_once_without_a_name
    in_loop do
      # With a context it is an error of a function that has executed another prepared statement, after effects of its own.
      {%w[26000] => true, %w[0A000 RevalidateCachedQuery] => true, %w[0A000 elsewhere] => false, %w[42601] => false,
       ["26000", "FetchPreparedStatement", "a function"] => false, ["0A000", "RevalidateCachedQuery", "a function"] => false}.each do |(state, function, context), expected|
        one = sent("select $1", key: "key")
        error = failure(state)
        error.define_singleton_method(:error_field) { |field| {PG::PG_DIAG_SQLSTATE => state, PG::PG_DIAG_SOURCE_FUNCTION => function, PG::PG_DIAG_CONTEXT => context}[field] }
        one.took(error)
        assert_equal expected, one.resend? || false, "#{state} #{function}"
        next unless expected
        assert_equal [nil, nil, :placed], [one.key, one.error, one.state]
        one.took(error)
        refute_predicate one, :resend?
      end
    end
  end

  def test_a_statement_with_a_begin_is_not_sent_again
    in_loop do
      one = sent("select $1", key: "key", opening: "BEGIN")
      one.took(failure("26000"))
      refute_predicate one, :resend?
    end
  end

  def test_results_belong_to_the_step_that_runs
    in_loop do
      one = statement("select $1", key: "key", opening: "BEGIN")
      one.sending(true)
      steps = Array.new(4) { one.step.tap { one.stepped } }
      assert_equal %i[open prepare run run], steps

      one.sending(true)
      one.took(NeverBlockTest::FakePg.ok("BEGIN"))
      assert_nil one.result
      one.took(NeverBlockTest::FakePg::Result.new(PG::PGRES_PIPELINE_ABORTED))
      assert_nil one.result
      2.times { one.stepped }
      one.took(NeverBlockTest::FakePg.ok("SELECT 3"))
      assert_equal "SELECT 3", one.tag
    end
  end

  def test_the_first_error_counts
    in_loop do
      one = sent("select 1")
      one.took(failure("42601", "first"))
      one.took(failure("25P02", "second"))
      assert_nil one.tag
      assert_equal "first", assert_raises(PG::Error) { one.value }.message
      one.refuse(IndexError.new("refused"))
      one.refuse(RuntimeError.new("too late"))
      assert_equal "refused", assert_raises(IndexError) { one.value }.message
    end
  end

  def test_a_failed_statement_is_done
    in_loop do
      one = statement("select 1")
      one.fail(IndexError.new("lost"))
      assert_equal :done, one.state
      assert_raises(IndexError) { one.value }
    end
  end

  def test_the_effect_of_a_write_in_flight_is_unknown
    in_loop do
      write = statement("update t set a = 1", kind: :write)
      refute_predicate write, :effect_unknown?
      write.sent_at = now
      assert_predicate write, :effect_unknown?
      write.finish
      refute_predicate write, :effect_unknown?
      refute_predicate sent("select 1"), :effect_unknown?
    end
  end

  def test_command_tags_tell_definitions
    in_loop do
      {"create table t ()" => ["CREATE TABLE", true, true], "create temp table t ()" => ["CREATE TABLE", true, false],
       "create or replace local temporary view v as select 1" => ["CREATE VIEW", true, false], "update t set a = 1" => ["UPDATE 1", false, false],
       "do $$ $$" => ["DO", true, true]}.each do |sql, (tag, alters, defines)|
        one = sent(sql, kind: :write)
        one.took(NeverBlockTest::FakePg.ok(tag))
        assert_equal [alters, defines], [one.alters?, one.defines?], sql
      end
    end
  end

  # A procedure may have committed a definition before it failed.
  def test_what_fails_may_have_changed_a_definition
    in_loop do
      {"call p()" => true, "/* a */ DO $$ $$" => true, "create view v as select 1" => false, "select 1" => false}.each do |sql, alters|
        one = sent(sql, kind: :session)
        refute_predicate one, :alters?, "it has not ended"
        one.took(failure("P0001"))
        assert_equal [alters] * 2, [one.alters?, one.defines?], sql
      end
    end
  end

  def test_a_wake_up_before_the_sleep_ends_it_at_once
    in_loop do
      one = statement("select 1")
      one.wake
      assert one.park(60)
      refute one.park(0.001), "the wake-up was used up"
      NB.spawn { one.wake }
      assert one.park(60)
    end
  end

  def test_a_dispersed_statement_looks_for_a_place_by_itself
    in_loop do
      one = statement("select 1")
      one.gathered = true
      one.dispersed
      refute one.gathered
      assert one.park(0)
    end
  end

  def test_times
    in_loop do
      one = statement("select 1")
      assert_equal 0.0, one.queue_time
      one.queued
      assert_same one.queued_at, one.queued
      one.sent_at = one.queued_at + 2.0
      one.started_at, one.ended_at, one.read_at = 5.0, 4.0, 6.5
      assert_in_delta 2.0, one.queue_time
      assert_equal [0.0, 1.5, one.sent_at], [one.running_time, one.longest_time, one.held_since]
      one.ended_at = 6.0
      assert_equal 1.0, one.running_time
    end
  end

  def test_an_audit_is_awaited_by_the_audited_one
    in_loop do
      one = statement("select 1")
      check = one.audit_by("select audit")
      assert_equal [check, one, one], [one.check, check.awaited, one.awaited]
      assert_equal [:abandoned, :own], [check.state, check.kind]
    end
  end

  # to_s may wait, so it runs before the statement is sent.
  def test_parameters_become_texts_in_the_fiber_that_asks
    in_loop do
      odd = Object.new
      odd.define_singleton_method(:to_s) { "odd" }
      assert_equal ["a", 1, nil, "odd"], statement("select $1", "a", 1, nil, odd).params
      kept = ["a", 1, nil]
      assert_same kept, NeverBlock::Postgres::Statement.new("select $1", kept, session_defaults: defaults).params
      error = assert_raises(TypeError) { NeverBlock::Postgres::Statement.new("select $1", "a", session_defaults: defaults) }
      assert_match(/params: "a" is not an Array/, error.message)
    end
  end

  def test_parameters_are_copied
    own = NeverBlock::Postgres::Statement.method(:own)
    text = +"a"
    nested = [text, {value: text}, 1]
    copy = own.call(nested)
    text << "b"
    assert_equal ["a", {value: "a"}, 1], copy
    assert_same NeverBlock::Postgres::Statement::NONE, own.call(NeverBlock::Postgres::Statement::NONE)
    assert_same(frozen = "f", own.call(frozen))
  end

  private

  def sent(sql, **)
    statement(sql, **).tap do |one|
      one.connection = Connection.new
      one.sending(false)
      one.sent_at = now
    end
  end

  def failure(state, message = "it failed") = NeverBlockTest::FakePg.error(state, message)
end
