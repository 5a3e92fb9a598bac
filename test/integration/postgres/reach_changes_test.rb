# frozen_string_literal: true

require "test_helper"
require_relative "../../support/reaching"

# What is read again after a definition: only the change. Nothing that may leave session state is missed by that.
class PostgresReachChangesTest < Minitest::Test
  include NeverBlockTest::Reaching

  # Templates of definitions; N, M: numbers of things.
  DEFINITIONS = [
    "create table tN (id int primary key, n int)", "create table tN (id bigserial, m int references tM (id) on delete cascade)", "drop table tN cascade",
    "create table tN (id int, n text default sly())", "alter table tN add column cM int", "alter table tN add column sM text default sly()",
    "alter table tN alter column n set default 5", "alter table tN rename to tM", "create view tN as select * from tM", "create view tN as select sly() as id, 1 as n",
    "create or replace view tN as select 1 as id, 2 as n", "drop view tN cascade", "create materialized view tN as select id, sly() as n from tM",
    "create function sly_tN() returns text language sql as 'select public.sly()'", "create or replace function n_of(tN) returns text language sql as 'select public.sly()'",
    "drop function sly_tN() cascade", "create trigger tr before insert on tN for each row execute function sly_trigger()", "drop trigger tr on tN",
    "create policy po on tN using (sly() is null)", "alter table tN enable row level security", "alter table tN disable row level security", "drop policy po on tN",
    "create rule ru as on insert to tN do also select sly()", "create index on tN ((sly_index(n)))", "create domain dN as int check (sly() is null)", "drop domain dN cascade",
    "alter table tN add column dM dM", "create table tN partition of tM default", "create table tN (id int, n int) partition by range (id)", "alter table tN inherit tM",
    "create operator class oN for type point using btree as operator 1 <@(point, polygon)", "create schema sN", "alter schema sN rename to sM", "create temp table tempN (id int)",
    "create table tN (n int, x int generated always as (length(sly_index(n))) stored)", "comment on table tN is 'x'", "alter function sly_tN() rename to sly_tM",
    "create cast (tN as text) with function n_of(tN)", "create table sN.tM (id int)", "create type tN as (a int)", "create event trigger eN on ddl_command_end execute function evt()",
    "drop event trigger eN", "alter table tN add check (sly() is null)", "truncate tN", "analyze tN", "vacuum full pg_class"
  ].freeze
  THINGS = 6

  slow "forty definitions"
  def test_random_definitions_are_judged_as_if_all_was_read
    random = Random.new(seed = ENV.fetch("SEED", Random.new_seed).to_i)
    connected do |connection|
      catalogue = new_catalogue
      kept = whole = 0
      100.times do |step|
        sql = DEFINITIONS.sample(random:).gsub(/(?<=[tsdoeMc])[NM]|(?<=temp)N/) { random.rand(THINGS) }
        define(connection, sql)
        reach = catalogue.refresh { |query| connection.exec(query) }
        expected = NeverBlock::Postgres::Reach.new(connection.exec(NeverBlock::Postgres::Dependencies.question([])).values)
        note = "after #{sql} (step #{step}, SEED=#{seed})"
        missed = doubted(expected) - doubted(reach)
        assert_empty missed, note
        assert_equal doubted(expected), doubted(reach), note unless catalogue.wanted?
        catalogue.wanted? ? whole += 1 : kept += 1
        catalogue.outdate
      end
      assert_operator [kept, whole].min, :>, 0
    end
  end

  # Regression: each definition read all, for 0.3 s with 2,000 tables, while all statements waited.
  def test_a_plain_definition_reads_no_dependencies
    connected do |connection|
      catalogue = new_catalogue
      catalogue.refresh { |sql| connection.exec(sql) }
      ["create schema s1", "create table s1.t1 (id bigserial primary key, name text default '', at timestamptz default now())", "create index on s1.t1 (name)",
        "create table s1.t2 (id int references s1.t1)", "alter table s1.t2 add column n int", "create view s1.v1 as select lower(name) from s1.t1", "drop view s1.v1"].each do |sql|
        connection.exec(sql)
        catalogue.outdate
        asked = []
        reach = catalogue.refresh { |query| connection.exec(query).tap { asked << query } }
        refute asked.any? { |query| query.include?("recursive") }, sql
        assert reach.doubt("select sly_view from view_of_sly", classified("select sly_view from view_of_sly"))
      end
      assert_predicate catalogue, :wanted?, "what is gone is forgotten later"
      catalogue.refresh { |query| connection.exec(query) }
      refute_predicate catalogue, :wanted?
    end
  end

  # Regression: a row that was newer than the first reading was taken to be there still.
  def test_what_was_new_and_is_gone_is_forgotten
    connected do |connection|
      catalogue = new_catalogue
      read = -> { catalogue.refresh { |sql| connection.exec(sql) } }
      read.call
      ["create view t1 as select sly() as id", "alter view t1 rename to t2"].each do |sql|
        connection.exec(sql)
        catalogue.outdate
        read.call
      end
      assert_predicate catalogue, :wanted?
      assert_equal ["select * from t2", "insert into t2 values (1)"], doubted(read.call)
      refute_predicate catalogue, :wanted?
    end
  end

  private

  def connected
    ask("create view view_of_sly as select sly() as sly_view")
    connection = PG.connect(server.url(@database))
    connection.exec("set client_min_messages to error; set jit to off; create function sly_index(int) returns text immutable language sql as 'select 1'; " \
      "create function evt() returns event_trigger language plpgsql as 'begin end'")
    yield connection
  ensure
    connection&.close
  end

  def new_catalogue = NeverBlock::Postgres::Catalogue.new(shareable: [], log: ->(_) {}, later: ->(&) {}) { flunk }

  # Errors are part of the game.
  def define(connection, sql)
    connection.exec(sql)
  rescue PG::Error
    nil
  end

  # @return [Array<String>] the statements that may leave session state
  def doubted(reach)
    @statements ||= Array.new(THINGS) { |n| ["select * from t#{n}", "insert into t#{n} values (1)", "select null::d#{n}", "select x.n_of from a x", "create role r#{n}"] }.flatten.uniq
    @statements.select { |sql| reach.doubt(sql, classified(sql)) }
  end

  def classified(sql) = (@classifier ||= NeverBlock::Postgres::Classifier.new).call(sql)
end
