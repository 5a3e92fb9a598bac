# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Operations with an exclusive connection: transactions, COPY, session state.
class PostgresLeasesTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers

  def test_transactions
    with_database(connections: 3) do |database|
      in_loop do
        database.exec("create table transactions (n int)")
        NB.concurrently(30.times.to_a, limit: 30) do |n|
          database.transaction do |connection|
            connection.exec_params("insert into transactions values ($1)", [n])
            assert_equal PG::PQTRANS_INTRANS, connection.transaction_status
            raise "no" if n.odd?
            assert_equal "1", one(connection.exec("select count(*) from transactions where n = #{n}"))
          end
        rescue RuntimeError => error
          assert_equal "no", error.message
        end
        pass_until("the last roll back") { database.stats[:held] == 0 }
        assert_equal "15|210", one(database.exec("select count(*) || '|' || sum(n) from transactions"))
      end
    end
  end

  def test_an_empty_transaction_takes_no_connection
    with_database do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("BEGIN")
          assert_equal PG::PQTRANS_INTRANS, connection.transaction_status
          assert_equal 0, database.stats[:held]
          connection.exec("COMMIT")
          assert_equal PG::PQTRANS_IDLE, connection.transaction_status
        end
      end
    end
  end

  def test_a_failed_transaction_can_be_asked_whether_it_lives
    with_database do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("begin")
          connection.exec("savepoint one")
          assert_raises(PG::SyntaxError) { connection.exec("nonsense") }
          assert_equal PG::PGRES_EMPTY_QUERY, connection.exec(";").result_status
          connection.exec("rollback to savepoint one")
          assert_equal "2", one(connection.exec("select 2"))
          connection.exec("commit")
        end
      end
    end
  end

  def test_a_transaction_that_could_not_be_committed
    with_database do |database|
      in_loop do
        assert_raises(PG::InFailedSqlTransaction) do
          database.transaction do |connection|
            connection.exec("select 1 / 0")
          rescue PG::DivisionByZero
            :done
          end
        end
      end
    end
  end

  def test_a_prepared_transaction_in_which_nothing_was_done
    with_database do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("BEGIN")
          assert_raises(PG::Error) { connection.exec("PREPARE TRANSACTION 'nothing'") } # max_prepared_transactions is 0
          connection.exec("ROLLBACK")
        end
      end
    end
  end

  # After a timeout the fiber rolls back without waiting for its cancelled statement.
  def test_an_abandoned_statement_does_not_delay_a_rollback
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("begin")
          connection.exec("create table given_up (n int)")
          task = NB.spawn { connection.exec("select pg_sleep(60)") }
          pass_until("the sleeper") { active("select pg_sleep(60%") == 1 }
          task.cancel
          assert_kind_of NeverBlock::Cancelled, outcome(task)
          connection.exec("rollback")
        end
        assert_equal "", one(database.exec("select to_regclass('given_up')")).to_s
      end
    end
  end

  def test_settings_of_a_transaction_end_with_it
    with_database(connections: 2, audit: true) do |database|
      in_loop do
        database.exec("create role tenant_7")
        seen = database.with_settings(:role => "tenant_7", :search_path => %w[a "b], "app.tenant" => "o'7") do |connection|
          %w[role search_path app.tenant].map { |name| one(connection.exec("SHOW #{name}")) }
        end
        assert_equal ["tenant_7", 'a, """b"', "o'7"], seen
        assert_equal "none", one(database.exec("SHOW role"))
        assert_match(/"a b" is not the name of a setting/, assert_raises(NeverBlock::ConfigurationError) { database.with_settings("a b" => 1) {} }.message)
      end
      assert_empty logged
    end
  end

  # Also if the server treats a backslash as an escape: such a connection is refused only when it would be shared.
  def test_settings_are_what_was_given_however_strings_are_read
    %w[on off].each do |standard|
      with_database(connections: 1, multiplex: false, target: "#{url}&options=-c%20standard_conforming_strings%3D#{standard}") do |database|
        in_loop do
          ["o'7", "a\\", "\\'; set role none; --", "\\\\n"].each do |value|
            assert_equal value, database.with_settings("app.tenant" => value) { |connection| one(connection.exec("SHOW app.tenant")) }
          end
        end
      end
    end
  end

  slow "it waits for statements that sleep"
  def test_session_state_is_private_and_is_reset
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("SET statement_timeout TO 1234")
          connection.exec("create temporary table mine (n int)")
          assert_equal "1234ms", one(connection.exec("SHOW statement_timeout"))
          assert_equal "0", one(database.exec("SHOW statement_timeout"))
        end
        pass_until("the cleaning") { database.stats[:held] == 0 }
        answers = Array.new(8) { NB.spawn { one(database.exec("select pg_sleep(0.02), setting from pg_settings where name = 'statement_timeout'").then { |result| database.exec("SHOW statement_timeout") }) } }.map(&:value)
        assert_equal ["0"], answers.uniq
        assert_equal "0", ask("select count(*) from pg_class where relname = 'mine'")
      end
      assert_match(/held until check-in.*SET statement_timeout/, logged.first)
    end
  end

  # Ten requests that each wait for something else after their transaction don't need ten connections.
  def test_transaction_state_ends_with_its_transaction
    with_database(connections: 2, audit: true, audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("begin")
          assert_equal "7", one(connection.exec("select set_config('app.tenant', '7', true)"))
          assert_equal "7", one(connection.exec("select current_setting('app.tenant')"))
          assert_equal "7", one(connection.exec_params("select current_setting($1)", ["app.tenant"]))
          connection.exec("select pg_advisory_xact_lock(4711), txid_current()")
          assert connection.leased_for
          connection.exec("commit")
          assert_nil connection.leased_for
          assert_equal "t", one(connection.exec("select pg_try_advisory_xact_lock(4711)"))
          assert_equal "9", one(connection.exec("select set_config('app.tenant', '9', true)"))
          assert_nil connection.leased_for
          assert_equal "", one(connection.exec("select coalesce(current_setting('app.tenant', true), '')"))
          assert_match(/current_setting/, connection.leased_for, "outside of a transaction it is of a session")
        end
      end
      assert_empty logged.grep_v(/held until check-in/)
    end
  end

  # Its value inside a transaction decides which tables are found.
  def test_a_search_path_of_set_config
    with_database(connections: 1) do |database|
      ask("create schema if not exists nb_path; create table if not exists nb_path.nb_found as select 'nb_path' as place; create table if not exists nb_found as select 'public' as place")
      in_loop do
        database.connect do |connection|
          connection.prepare("where", "select place from nb_found")
          assert_equal "public", one(connection.exec_prepared("where"))
          connection.exec("begin")
          connection.exec("select set_config('search_path', 'nb_path', true)")
          assert_equal "nb_path", one(connection.exec_prepared("where"))
          connection.exec("commit")
          assert_equal "public", one(connection.exec_prepared("where"))
        end
      end
    ensure
      ask("drop schema if exists nb_path cascade; drop table if exists nb_found")
    end
  end

  # Only a cursor WITH HOLD keeps its connection longer.
  def test_a_cursor_ends_with_its_transaction
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("select 1")
        ["cursor for", "cursor without hold for", "no scroll cursor for"].each do |cursor|
          database.connect do |connection|
            connection.transaction do
              connection.exec("declare numbers #{cursor} select generate_series(1, 3)")
              assert_equal [["1"], ["2"]], connection.exec("fetch 2 from numbers").values
            end
            refute_predicate connection, :changed?, cursor
            assert_equal 0, database.stats[:held]
            assert_raises(PG::InvalidCursorName) { connection.exec("fetch 1 from numbers") }
          end
        end
        assert_empty logged
        database.connect do |connection|
          connection.transaction { connection.exec("declare numbers cursor with hold for select 1") }
          assert_predicate connection, :changed?
          assert_equal "1", one(connection.exec("fetch 1 from numbers"))
        end
      end
      assert_match(/held until check-in.*with hold/, logged.first)
    end
  end

  def test_a_function_that_is_not_known_is_cleaned_after
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create function leak() returns int language sql as $$ select set_config('application_name', 'leaked', false); select 1 $$")
        database.exec("select leak()")
        pass_until("the cleaning") { database.stats[:held] == 0 }
        refute_includes ask("select string_agg(application_name, ',') from pg_stat_activity"), "leaked"
      end
    end
  end

  # Not only SET statements.
  def test_settings_made_while_an_adapter_connects_are_on_all_connections
    with_database(connections: 3) do |database|
      in_loop do
        answers = NB.concurrently(20.times.to_a, limit: 20) do
          connection = database.connection
          connection.configure { connection.exec("select set_config('app.tenant', 'seven', false)") }
          connection.configure { connection.exec("reset statement_timeout") }
          connection.exec("select pg_sleep(0.01)")
          value = one(connection.exec("show app.tenant"))
          assert_nil connection.leased_for
          connection.exec("set statement_timeout to 55")
          connection.check_in
          value
        end
        assert_equal ["seven"], answers.uniq
      end
    end
  end

  # They refer to their connection, and outside of a transaction that may be any.
  def test_currval_and_lastval
    with_database(connections: 3) do |database|
      in_loop do
        database.exec("create table numbered (id serial)")
        5.times { database.exec("insert into numbered default values") }
        ["select currval('numbered_id_seq')", "select lastval()", "select 1 where lastval() = 1", "explain select lastval()"].each do |sql|
          assert_raises(PG::ObjectNotInPrerequisiteState, sql) { database.exec(sql) }
          database.connect { |connection| assert_raises(PG::ObjectNotInPrerequisiteState, sql) { connection.exec(sql) } }
          database.transaction { |connection| assert_match(/nothing was inserted/, assert_raises(PG::ObjectNotInPrerequisiteState) { connection.exec(sql) }.message) }
        end
        pairs = NB.concurrently(20.times.to_a, limit: 20) do
          database.transaction { |connection| [one(connection.exec("insert into numbered default values returning id")), one(connection.exec("select lastval()"))] }
        end
        assert(pairs.all? { |returned, last| returned == last }, pairs.inspect)
      end
    end
  end

  # The connection is reset, not closed, and its next user gets no notification.
  slow "it waits for statements that sleep"
  def test_listening_costs_no_connection
    with_database(connections: 2) do |database|
      in_loop do
        pid = -> { ask("select string_agg(pid::text, ',' order by pid) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'") }
        database.connect { |connection| connection.exec("select 1 for update") }
        before = pid.call
        database.connect do |connection|
          connection.exec("listen nb_heard")
          ask("notify nb_heard, 'one'")
          assert_equal "one", connection.wait_for_notify(10) { |_channel, _pid, text| break text }
          2.times { ask("notify nb_heard, 'more'") }
          assert_equal "nb_heard", connection.wait_for_notify(10)
        end
        pass_until("the cleaning") { database.stats[:held] == 0 }
        assert_equal before, pid.call
        database.connect do |connection|
          connection.exec("listen nb_other")
          assert_nil connection.wait_for_notify(0.05)
        end
      end
    end
  end

  def test_copies
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create table copied (n int)")
        database.connect do |connection|
          connection.exec("copy copied from stdin")
          3.times { |n| connection.put_copy_data("#{n}\n") }
          connection.put_copy_end
          assert_equal "COPY 3", connection.get_last_result.cmd_status
          assert_nil connection.get_result
          connection.exec("copy copied to stdout")
          assert_equal %W[0\n 1\n 2\n], Array.new(3) { connection.get_copy_data }
          assert_nil connection.get_copy_data
          assert_equal "COPY 3", connection.get_result.cmd_status
          assert_nil connection.get_last_result
          assert_equal "3", one(connection.exec("select count(*) from copied"))
        end
      end
    end
  end

  def test_a_copy_that_is_broken_off
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create table broken_off (n int)")
        database.connect do |connection|
          connection.exec("copy broken_off from stdin")
          connection.put_copy_data("1\n")
          connection.put_copy_end("no more")
          assert_equal "0", one(connection.exec("select count(*) from broken_off"))
          connection.exec("copy (select generate_series(1, 100)) to stdout")
          assert_equal "1\n", connection.get_copy_data
          assert_equal "0", one(connection.exec("select count(*) from broken_off"))
        end
      end
    end
  end

  # User code that runs while a real connection is in use may use that connection.
  def test_blocks_that_use_their_connection
    with_database(connections: 3) do |database|
      in_loop do
        database.exec("create table blocks (n int, word text)")
        database.connect do |connection|
          connection.copy_data("copy blocks from stdin", PG::TextEncoder::CopyRow.new) { 3.times { |n| connection.put_copy_data([n, "x\ty"]) } }
          rows = []
          connection.copy_data("copy blocks to stdout", PG::TextDecoder::CopyRow.new) { while (row = connection.get_copy_data) do rows << row end }
          assert_equal Array.new(3) { |n| [n.to_s, "x\ty"] }, rows
          connection.exec("listen blocks")
          database.exec("notify blocks, 'told'")
          connection.wait_for_notify(10) { |*, told| assert_equal %w[told 3], [told, one(connection.exec("select count(*) from blocks"))] }
        end
      end
    end
  end

  # At a program's end Ruby kills the remaining threads, and can't start new ones. Connections that their ensure blocks
  # return must not raise: a rescued error would keep the thread alive, and the program for as long as that waits.
  slow "it starts a program"
  def test_a_thread_that_is_killed_at_the_end_of_a_program_gives_its_lease_back_and_ends
    output = assert_ruby(<<~RUBY, gems: true, options: ["-W0"])
      require "neverblock/postgres"
      database = NeverBlock::Postgres.new(#{url.inspect}, connections: 2)
      held = Thread::Queue.new
      Thread.new do
        database.connect do |connection|
          connection.exec("select pg_advisory_lock(4713)")
          held << true
          sleep
        end
      rescue => error
        puts "rescued: \#{error.class}"
      end
      held.pop
      puts "at its end"
    RUBY
    assert_equal "at its end\n", output
  end
end
