# frozen_string_literal: true

require "test_helper"

# What errors of the client say, and what they know of a statement's effect.
class PostgresErrorsTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_the_outcome_of_a_lost_statement_is_unknown
    error = NeverBlock::Postgres::OutcomeUnknown.of(PG::ConnectionBad.new("the server has gone\n"))
    assert_equal "the server has gone (the statement had been sent: whether it was executed is unknown)\n", error.message
    assert_kind_of NeverBlock::Error, error
  end

  def test_a_statement_that_was_cancelled_for_its_time_has_no_effect
    error = NeverBlock::Postgres::QueryTimeout.of(5, "update  t\nset a = 1", :result, harmless: true)
    assert_equal "a statement ran for longer than query_timeout: 5 s: update t set a = 1. The server has cancelled it: it has not taken effect. " \
      "Make it faster, or raise the limit", error.message
    assert_equal :result, error.result
  end

  def test_commands_that_commit_by_parts_keep_what_they_have_committed
    ["VACUUM t", " (call p())", "/* a\nb */ -- c\n call p()", "create index concurrently i on t (a)", "do $$ begin end $$", "reindex table t"].each do |sql|
      assert_includes NeverBlock::Postgres::QueryTimeout.of(5, sql, nil, harmless: true).message, "the changes that it had committed before stay", sql
    end
    ["select 1", "vacuumed", "create index i on t (a)"].each do |sql|
      assert_includes NeverBlock::Postgres::QueryTimeout.of(5, sql, nil, harmless: true).message, "it has not taken effect", sql
      assert_match(/undone; only what functions did outside of its transaction, as by dblink, would stay/, NeverBlock::Postgres::QueryTimeout.of(5, sql, nil, harmless: false).message)
    end
  end

  def test_a_server_that_does_not_confirm_leaves_the_outcome_open
    error = NeverBlock::Postgres::UnconfirmedTimeout.after(5, "update t set a = \xFF", 10)
    assert_match(/query_timeout: 5 s: update t set a = \?\. The server was asked to cancel it, and has not answered within 10 s \(the statement had been sent/, error.message)
    assert_kind_of NeverBlock::Postgres::OutcomeUnknown, error
  end

  def test_a_long_statement_is_cut
    assert_operator NeverBlock::Postgres::QueryTimeout.of(5, "select #{"x" * 10_000}", nil, harmless: true).message.size, :<, 500
  end
end
