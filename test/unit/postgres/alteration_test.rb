# frozen_string_literal: true

require "test_helper"
require "support/at_call"
require "neverblock/postgres"

# Which statements may have changed a definition, by their text and the server's command tag.
class PostgresAlterationTest < Minitest::Test
  include NeverBlockTest::AtCall

  Alteration = NeverBlock::Postgres::Alteration

  DEFINITIONS = {
    "create view v as select 1" => "CREATE VIEW", "alter table t add a int" => "ALTER TABLE", "do $$ $$" => "DO", "call p()" => "CALL",
    "commit prepared 'p'" => "COMMIT PREPARED", "import foreign schema s from server x into y" => "IMPORT FOREIGN SCHEMA",
    "security label on table t is 'x'" => "SECURITY LABEL", "a command of later releases" => "LATER COMMAND",
    "create materialized view m as select 1" => "SELECT 1", "/* a */ create table t as select 1" => "SELECT 1", "select 1 as a into t" => "SELECT 1",
    "select 1/**/into t" => "SELECT 1", "with a as (insert into b values (1) returning c) select c into t from a" => "SELECT 1",
    "explain analyze create table t as select 1" => "EXPLAIN", "select 1 into t where a = '\xFF'" => "SELECT 1"
  }.freeze
  OTHERS = {
    "select 1" => "SELECT 1", "select 'create', 1 -- into" => "SELECT 1", "with a as (insert into b values (1) returning c) select * from a" => "SELECT 1",
    "with a as (insert  into b values (1) returning c) select * from a" => "SELECT 1", "insert into b select 1" => "INSERT 0 1", "copy t from stdin" => "COPY 1",
    "explain insert into t values (1)" => "EXPLAIN", "merge into t using u on true" => "MERGE 1", "commit" => "COMMIT", "prepare transaction 'p'" => "PREPARE TRANSACTION",
    "rollback prepared 'p'" => "ROLLBACK PREPARED", "refresh materialized view m" => "REFRESH MATERIALIZED VIEW", "set a.b = 1" => "SET", "" => ""
  }.freeze

  def test_what_is_not_known_to_change_none_may_have_changed_one
    DEFINITIONS.each { |sql, tag| assert Alteration.by?(sql, tag), sql }
    OTHERS.each { |sql, tag| refute Alteration.by?(sql, tag), sql }
  end

  # Regression: each SELECT was searched whole, which held the loop for 33 ms per MB.
  def test_literals_are_not_read
    sql = "select length('#{"create into " * 1_000}')"
    assert_equal(0, calls(NeverBlock::Postgres::Lexer.singleton_class, :tokens) { refute Alteration.by?(sql, "SELECT 1") })
    assert Alteration.by?("#{sql} into t", "SELECT 1")
  end

  def test_other_sessions_never_see_temporary_ones
    ["create temp table t (a int)", " CREATE OR REPLACE LOCAL TEMPORARY VIEW v as select 1"].each { |sql| refute Alteration.lasting?(sql), sql }
    ["create table temp (a int)", "commit prepared 'p'"].each { |sql| assert Alteration.lasting?(sql), sql }
  end

  def test_one_of_several_statements
    ["select 1; Drop table t", "select 1; commit prepared 'p'", "select 1 into t; select 2", "select 1; create view v as select 1"].each { |sql| assert Alteration.within?(sql), sql }
    ["select 1; select dropped from t", "insert into t values (1); insert into t values (2)", "insert into t values (1); select 1"].each { |sql| refute Alteration.within?(sql), sql }
  end
end
