# frozen_string_literal: true

# engines: one - it asks libpq, without a loop

require "test_helper"
require_relative "../support/database"

# Reported parameters, read from libpq directly and through pg: both agree.
class PostgresReportedTest < Minitest::Test
  include NeverBlockTest::Database

  def test_libpq_says_what_pg_says
    assert NeverBlock::Postgres::Driver.native?, "pg's extension has the functions that are looked up in it"
    with_reported do |pg, reported|
      assert_nil reported.leak
      assert_predicate reported, :calm?
      pg.exec("set application_name to 'other'")
      refute_predicate reported, :calm?
      assert_includes reported.leak, "application_name was"
      pg.exec("reset application_name")
      assert_nil reported.leak
    end
  end

  def test_a_transaction_is_not_calm
    with_reported do |pg, reported|
      pg.exec("begin")
      assert_equal [nil, false], [reported.leak, reported.calm?]
      pg.exec("rollback")
      assert_predicate reported, :calm?
    end
  end

  def test_a_question_to_a_closed_connection
    with_reported do |pg, reported|
      pg.close
      assert_raises(PG::ConnectionBad) { reported.calm? }
    end
  end

  def test_an_answer_of_ours_has_its_tag
    with_reported do |pg, _|
      answer = pg.make_empty_pgresult(PG::PGRES_COMMAND_OK)
      assert_same answer, NeverBlock::Libpq.tag(answer, "START TRANSACTION")
      assert_equal "START TRANSACTION", answer.cmd_status
      assert_raises(ArgumentError) { NeverBlock::Libpq.tag(answer, "x" * 32) }
      assert_raises(ArgumentError) { NeverBlock::Libpq.tag(answer, "a\0b") }
      assert_raises(TypeError) { NeverBlock::Libpq.tag(Object.new, "BEGIN") }
      answer.clear
      assert_raises(PG::Error) { NeverBlock::Libpq.tag(answer, "BEGIN") }
    end
  end

  def test_an_unknown_setting
    with_reported do |pg, _|
      assert NeverBlock::Libpq.settings?(pg, ["no_such", nil])
      refute NeverBlock::Libpq.settings?(pg, ["no_such", "1"])
      assert_raises(TypeError) { NeverBlock::Libpq.settings?(pg, [1, 2]) }
      assert_raises(TypeError) { NeverBlock::Libpq.settings?(pg, "TimeZone") }
      assert_raises(TypeError) { NeverBlock::Libpq.settings?(Object.new, []) }
      refute NeverBlock::Libpq.load("/no/such/pg_ext.so")
    end
  ensure
    NeverBlock::Postgres::Driver.load # finds the functions again
  end

  private

  def with_reported
    pg = PG.connect(url)
    reported = NeverBlock::Postgres::Reported.new(pg)
    reported.accept
    yield pg, reported
  ensure
    pg&.close unless pg&.finished?
  end
end
