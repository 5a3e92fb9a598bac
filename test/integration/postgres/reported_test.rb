# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Reported parameters, read from libpq directly and through pg: both agree.
class PostgresReportedTest < Minitest::Test
  include NeverBlockTest::Database

  def test_libpq_says_what_pg_says
    assert NeverBlock::Postgres::Driver.native?, "pg's extension has the functions that are looked up in it"
    with_reported do |pg, reported|
      assert_nil reported.leak
      assert reported.calm?(now)
      pg.exec("set application_name to 'other'")
      refute reported.calm?(now)
      assert_includes reported.leak, "application_name was"
      pg.exec("reset application_name")
      assert_nil reported.leak
    end
  end

  def test_a_transaction_is_not_calm
    with_reported do |pg, reported|
      pg.exec("begin")
      assert_equal [nil, false], [reported.leak, reported.calm?(now)]
      pg.exec("rollback")
      assert reported.calm?(now)
    end
  end

  def test_where_only_built_in_functions_are_called_the_values_are_compared_now_and_then
    with_reported(always: false) do |pg, reported|
      assert reported.calm?(10.0)
      pg.exec("set application_name to 'other'")
      assert reported.calm?(10.0 + NeverBlock::Postgres::Reported::COMPARED_FOR / 2)
      refute reported.calm?(10.0 + NeverBlock::Postgres::Reported::COMPARED_FOR)
      reported.accept
      pg.exec("reset application_name")
      refute reported.calm?(10.0), "the accepted values are new"
      pg.exec("begin")
      refute reported.calm?(10.0)
    end
  end

  def test_the_command_tag_of_a_read
    with_reported do |pg, _|
      reads = ["select 1", "show TimeZone", "explain select 1"]
      assert_equal [true] * 3, reads.map { |sql| NeverBlock::Postgres::Guard.read?(pg.exec(sql)) }
      refute NeverBlock::Postgres::Guard.read?(pg.exec("begin"))
      assert_raises(TypeError) { NeverBlock::Libpq.read?(Object.new) }
      assert_raises(PG::Error) { NeverBlock::Libpq.read?(pg.exec("rollback").tap(&:clear)) }
    end
  end

  def test_the_command_tag_of_rows
    with_reported do |pg, _|
      rows = ["create temp table rows as select 1 as n", "begin", "insert into rows values (2)", "update rows set n = 3", "delete from rows", "select 1", "commit"]
      told = rows.map { |sql| pg.exec(sql) }
      assert_equal [true, false, true, true, true, true, true], told.map { |result| NeverBlock::Postgres::Guard.data?(result) }
      assert_equal [false, false], ["create temp table others ()", "set work_mem = '1MB'"].map { |sql| NeverBlock::Postgres::Guard.data?(pg.exec(sql)) }
      assert_raises(TypeError) { NeverBlock::Libpq.data?(Object.new) }
    end
  end

  def test_a_question_to_a_closed_connection
    with_reported do |pg, reported|
      pg.close
      assert_raises(PG::ConnectionBad) { reported.calm?(now) }
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

  def with_reported(**)
    pg = PG.connect(url)
    reported = NeverBlock::Postgres::Reported.new(pg, **)
    reported.accept
    yield pg, reported
  ensure
    pg&.close unless pg&.finished?
  end
end
