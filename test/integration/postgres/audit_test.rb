# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"
require_relative "../../support/delay_proxy"

# Session state that statements leave on their connections is detected.
class PostgresAuditIntegrationTest < Minitest::Test
  include NeverBlockTest::Database

  # Neither a command tag nor a reported setting shows it.
  # PostgreSQL reports "session" as the setting's source from then on, though the setting ended with the transaction.
  def test_the_isolation_of_a_transaction_is_no_leak
    with_database(connections: 1, audit: true) do |database|
      in_loop do
        pid = one(database.transaction { |connection| connection.exec("set transaction isolation level serializable read only deferrable") && connection.exec("select pg_backend_pid()") })
        assert_equal [pid, "read committed"], database.transaction { |connection| connection.exec("select pg_backend_pid(), current_setting('transaction_isolation')") }.values.first
      end
      assert_empty logged.grep_v(/held until check-in/)
    end
  end

  def test_an_audit_finds_what_a_function_left
    with_database(connections: 2, multiplex: :reads, shareable_functions: ["sly"], audit: true, audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.exec("create or replace function sly(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$")
        assert_equal "acme", one(database.exec("select sly($1)", ["acme"]))
        assert_match(/session state was left on a shared connection, which is closed: setting app.tenant: nil, then "acme". It was left by: select sly/, logged.last)
        assert_equal [nil], Array.new(6) { NB.spawn { one(database.exec("select nullif(current_setting('app.tenant', true), '')")) } }.map(&:value).uniq
        assert_equal 1, logged.grep(/session state was left/).size
      end
    end
  end

  # They are sent in one packet with the leaking statement and its audit.
  def test_results_behind_a_leaking_statement_are_not_delivered
    with_database(connections: 1, multiplex: :reads, shareable_functions: %w[sly current_setting], audit: true, audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.exec("create or replace function sly(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$")
        leak, read = "select sly($1)", "select nullif(current_setting('app.tenant', true), '')"
        patient(database)
        2.times { one(database.exec(leak, ["known"])) && one(database.exec(read)) } # learns their durations
        behind = 0
        10.times do
          pass_until("a connection") { one(database.exec("select 1")) && database.stats[:idle] == 1 }
          leaking = NB.spawn { one(database.exec(leak, ["acme"])) }
          answers = Array.new(5) { NB.spawn { one(database.exec(read)) } }.map { |task| outcome(task) }
          assert_equal "acme", leaking.value
          assert_empty answers.reject { |answer| answer.nil? || NeverBlock::Postgres::OutcomeUnknown === answer }
          behind += answers.compact.size
        end
        assert_operator behind, :>, 0, "none was on the same connection"
      end
    end
  end

  # State that the last statement left would otherwise stay until the next statement.
  def test_an_idle_connection_is_audited
    with_database(connections: 2, shareable_functions: ["hold_on"]) do |database|
      in_loop do
        database.exec("create or replace function hold_on(key int) returns text language sql as $$ select pg_advisory_lock(key)::text $$")
        database.exec("select hold_on(4711)")
        assert_equal "1", ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4711")
        NeverBlock::Postgres::Janitor.run_once
        assert_match(/session state was left on a shared connection, which is closed: .*advisory/, logged.last)
        pass_until("its end") { ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4711") == "0" }
        assert_equal "1", one(database.exec("select 1"))
      end
      NeverBlock::Postgres::Janitor.run_once
      asked = -> { ask("select max(state_change) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'") }
      before = asked.call
      NeverBlock::Postgres::Janitor.run_once
      assert_equal before, asked.call, "it was not used since"
      assert_equal 1, logged.grep(/session state was left/).size
    end
  end

  # The janitor is a thread of its own, started with the first connection, and also in a forked child.
  def test_a_janitor_runs_in_each_process
    janitor = -> { Thread.list.select { |thread| thread.name == "neverblock postgres" }.size }
    with_database(connections: 2) do |database|
      in_loop { database.exec("select 1") }
      pass_until("the janitor") { janitor.call == 1 }
      reader, writer = IO.pipe
      child = fork do
        in_loop { database.exec("select 1") }
        pass_until("the janitor") { janitor.call == 1 }
        writer << janitor.call
        exit!(0)
      end
      writer.close
      assert_equal "1", reader.read
      Process.wait(child)
    end
  end

  def test_an_audit_says_nothing_of_ordinary_work
    with_database(connections: 3, audit: true) do |database|
      in_loop do
        database.exec("create table if not exists audited (n int)")
        NB.concurrently(60.times.to_a, limit: 60) do |n|
          case n % 3
          when 0 then assert_equal n.to_s, one(database.exec("select $1::int", [n]))
          when 1 then database.exec("insert into audited values ($1)", [n])
          else database.transaction { |connection| connection.exec("update audited set n = n + 1") }
          end
        end
        pass_until("the end of the audits") { database.stats[:held] == 0 }
      end
      assert_empty logged
    end
  end

  # Cut at any byte: the statement's answer may have arrived, but not the audit's.
  slow "many cancelled statements"
  def test_a_connection_that_is_lost_while_it_is_audited
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      database = NeverBlock::Postgres.new("postgresql://postgres@127.0.0.1:#{proxy.port}/postgres?sslmode=disable", connections: 1, audit: true, log: @logged.method(:<<))
      in_loop do
        (0..560).step(40) do |bytes|
          pass_until("a connection") { outcome(NB.spawn { database.exec("select $1::int", [1]) }).then { |value| PG::Result === value } }
          proxy.answers(bytes)
          task = NB.spawn { database.exec("select $1::int", [2]) }
          sleep 0.01 # real: the database answers meanwhile; the cut may come before or after
          proxy.cut
          proxy.resume
          value = outcome(task)
          (NeverBlock::Postgres::OutcomeUnknown === value) ? assert_match(/server closed/, value.message) : assert_equal("2", one(value))
        end
      end
    ensure
      database&.close
    end
  end

  # For example by an administrator, with a request meant for the statement before.
  def test_an_audit_that_is_cancelled
    control = PG.connect(NeverBlockTest::Database.server.url)
    with_database(connections: 1, audit: true) do |database|
      in_loop do
        assert_equal "1", one(database.exec("select $1::int", [1]))
        control.exec("begin; lock table pg_catalog.pg_class in access exclusive mode")
        task = NB.spawn { one(database.exec("select $1::int", [2])) }
        pids = "select pid from pg_stat_activity where application_name = 'nb_#{name[0, 50]}' and wait_event_type = 'Lock'"
        pass_until("the audit") { control.exec(pids).ntuples == 1 }
        control.exec("select pg_cancel_backend(pid) from (#{pids}) waiting")
        assert_equal "2", NB.timeout(5) { task.value }
        control.exec("rollback")
        assert_equal "3", NB.timeout(5) { one(database.exec("select $1::int", [3])) }
      end
    end
    assert_empty logged
  ensure
    control&.close
  end

  # The reading fiber leaves while only audits' results are awaited.
  slow "many cancelled statements"
  def test_cancelled_statements_among_audited_ones
    with_database(connections: 2, audit: true) do |database|
      in_loop do
        tasks = Array.new(40) do |n|
          NB.spawn do
            20.times do
              NB.timeout(0.003 * rand) { database.exec("select $1::text, pg_sleep(0.001)::text", [n]) }
            rescue NeverBlock::TimeoutError
              assert_equal n.to_s, one(database.exec("select $1::text", [n]))
            end
          end
        end
        tasks.each(&:value)
      end
    end
  end
end
