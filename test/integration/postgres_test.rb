# frozen_string_literal: true

require "test_helper"
require_relative "../support/database"
require_relative "../support/delay_proxy"

# Statements of many fibers on few connections.
class PostgresTest < Minitest::Test
  include NeverBlockTest::Database

  def test_a_thousand_fibers_get_their_own_rows
    with_database do |database|
      in_loop do
        rows = NB.concurrently(1_000.times.to_a, limit: 1_000) { |n| one(database.exec("select $1::int * 2", [n])) }
        assert_equal 1_000.times.map { |n| (n * 2).to_s }, rows
        assert_operator database.stats[:connections], :<=, 4
        assert_equal [0, 0, 0], database.stats.values_at(:in_flight, :queued, :held)
      end
      assert_operator backends, :<=, 4
    end
  end

  def test_rows_without_parameters_too
    with_database do |database|
      rows = in_loop { NB.concurrently(200.times.to_a, limit: 200) { |n| one(database.exec("select #{n} as n")) } }
      assert_equal 200.times.map(&:to_s), rows
    end
  end

  # More sleepers than one connection could serve in the time.
  def test_slow_statements_have_a_connection_each
    with_database(connections: 11) do |database|
      in_loop do
        sleepers = Array.new(10) { NB.spawn { database.exec("select pg_sleep(0.5)") } }
        pass_until("ten sleepers") { ask("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep%'").to_i == 10 }
        sleepers.each(&:value)
      end
    end
  end

  def test_an_error_stays_with_its_statement
    with_database(connections: 2) do |database|
      in_loop do
        outcomes = NB.concurrently(100.times.to_a, limit: 100) do |n|
          one(database.exec("select 10 / ($1::int % 3)", [n]))
        rescue PG::DivisionByZero => error
          error.class
        end
        assert_equal 100.times.map { |n| (n % 3 == 0) ? PG::DivisionByZero : (10 / (n % 3)).to_s }, outcomes
      end
    end
  end

  # Prepared in the same breath: what the Parse answered is not what the statement did.
  def test_an_error_of_a_text_that_is_new_costs_no_connection
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        connected = ask("select pid from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'")
        2.times { assert_raises(PG::DivisionByZero) { database.exec("select 1 / ($1::int - 1)", [1]) } }
        assert_raises(PG::InvalidTextRepresentation) { database.exec("select $1::int + 1", ["x"]) }
        assert_equal connected, ask("select pid from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'")
        assert_empty logged
      end
    end
  end

  def test_a_text_that_can_t_be_parsed
    with_database(connections: 1) do |database|
      in_loop do
        outcomes = NB.concurrently(20.times.to_a, limit: 20) { |n| n.even? ? one(database.exec("select $1::int", [n])) : database.exec("select nothing from nowhere where a = $1", [n]) rescue $!.class } # standard:disable Style/RescueModifier
        assert_equal 20.times.map { |n| n.even? ? n.to_s : PG::UndefinedTable }, outcomes
      end
    end
  end

  def test_a_parameter_that_can_t_be_sent
    with_database(connections: 1) do |database|
      in_loop do
        odd = Object.new
        def odd.to_s = raise("no text")
        tasks = Array.new(9) { |n| NB.spawn { database.exec("select $1::text", [(n == 4) ? odd : n]) } }
        assert_equal 9.times.map { |n| (n == 4) ? "no text" : n.to_s }, tasks.map { |task| outcome(task).then { |value| (Exception === value) ? value.message : one(value) } }
      end
    end
  end

  def test_writes_are_alone
    with_database do |database|
      in_loop do
        database.exec("create table alone (n int)")
        NB.concurrently(50.times.to_a, limit: 50) { |n| database.exec("insert into alone values ($1)", [n]) }
        assert_equal "50|1225", ask("select count(*), sum(n) from alone")
      end
    end
  end

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

  # Active Record gives names up when it has changed a table.
  def test_a_name_that_is_given_up_is_parsed_anew
    with_database(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("create table nb_altered (id int)")
          connection.prepare("a", "select * from nb_altered")
          connection.exec_prepared("a")
          connection.exec("alter table nb_altered add name text")
          connection.respond_to?(:close_prepared) ? connection.close_prepared("a") : connection.exec("deallocate a")
          connection.exec("begin")
          connection.prepare("a2", "select * from nb_altered")
          assert_equal %w[id name], connection.exec_prepared("a2").fields
          connection.exec("commit")
        end
      end
    ensure
      ask("drop table if exists nb_altered")
    end
  end

  def test_a_stale_plan_in_a_transaction_can_be_rolled_back
    with_database(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("create table nb_stale (id int)")
          connection.prepare("a", "select * from nb_stale")
          connection.exec_prepared("a")
          connection.exec("alter table nb_stale add name text")
          connection.exec("begin")
          connection.exec("savepoint one")
          assert_raises(PG::FeatureNotSupported) { connection.exec_prepared("a") }
          connection.exec("rollback to savepoint one")
          assert_equal %w[id name], connection.exec_prepared("a").fields
          connection.exec("commit")
        end
      end
    ensure
      ask("drop table if exists nb_stale")
    end
  end

  def test_bytes_that_are_no_text_do_not_spoil_the_log
    with_database do |database|
      in_loop { database.connect { |connection| assert_raises(PG::CharacterNotInRepertoire) { connection.exec("select '\xff'") } } }
      assert_equal ["a connection was held until check-in, and is cleaned, because of: select '?'"], logged
    end
  end

  def test_notices
    with_database do |database|
      in_loop do
        database.connect do |connection|
          heard = []
          connection.set_notice_processor { |notice| heard << notice }
          connection.exec("do $$ begin raise warning 'one'; end $$")
          connection.exec("do $$ begin raise warning 'two'; end $$; select 1")
          assert_equal [%w[one], %w[two]], heard.map { |notice| notice.scan(/WARNING:  (\w+)/).flatten }
          connection.set_notice_processor
          _, said = capture_io { connection.exec("do $$ begin raise warning 'three'; end $$") }
          assert_match(/WARNING:  three/, said)
        end
      end
    end
  end

  def test_results_that_were_not_read
    with_database do |database|
      in_loop do
        database.connect do |connection|
          connection.send_query("select 1")
          assert_equal "2", one(connection.exec("select 2"))
          connection.send_query("select pg_terminate_backend(pg_backend_pid())")
          assert_equal "no connection to the server", assert_raises(PG::ConnectionBad) { connection.exec("select 3") }.message
          connection.reset
          assert_equal "4", one(connection.exec("select 4"))
        end
      end
    end
  end

  def test_what_comes_back_from_the_simple_protocol_is_shared_again
    with_database(connections: 1) do |database|
      database.connect { |connection| 2.times { connection.exec(";") } }
      assert_equal "2", in_loop { one(database.exec("select 2")) }
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

  def test_what_a_session_keeps_is_its_own_and_is_cleaned
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

  # As PG::Connection takes it.
  def test_nil_is_no_parameters
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.prepare("nine", "select 9")
          assert_equal %w[9 9 8], [connection.exec_prepared("nine", nil), connection.exec_prepared("nine"), connection.exec_params("select 8", nil)].map { |result| one(result) }
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

  # User's code is called while a real connection is in hand, and uses it.
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

  # Whoever is timed out rolls back, and does not wait for what he has given up.
  def test_what_is_given_up_in_a_transaction_holds_up_no_roll_back
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("begin")
          connection.exec("create table given_up (n int)")
          task = NB.spawn { connection.exec("select pg_sleep(60)") }
          pass_until("the sleeper") { ask("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60%'") == "1" }
          task.cancel
          assert_kind_of NeverBlock::Cancelled, outcome(task)
          connection.exec("rollback")
        end
        assert_equal "", one(database.exec("select to_regclass('given_up')")).to_s
      end
    end
  end

  # Not only SET.
  def test_what_is_done_while_an_adapter_connects_is_on_all_connections
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

  def test_outside_of_a_loop
    with_database(connections: 2) do |database|
      assert_equal "7", one(database.exec("select $1::int", [7]))
      database.connect do |connection|
        connection.exec("SET statement_timeout TO 99")
        assert_equal "99ms", one(connection.exec("SHOW statement_timeout"))
      end
      threads = Array.new(8) { |n| Thread.new { Array.new(5) { one(database.exec("select #{n}")) } } }
      assert_equal Array.new(8) { |n| [n.to_s] * 5 }, threads.map(&:value)
      assert_operator backends, :<=, 2
    end
  end

  def test_a_wait_for_a_connection_ends_and_names_the_holders
    with_database(connections: 2, timeout: 0.2) do |database|
      in_loop do
        database.transaction do |connection|
          connection.exec("select 1 from pg_class for update of pg_class skip locked limit 1")
          error = assert_raises(NeverBlock::Postgres::PoolTimeout) { database.transaction { |other| other.exec("lock pg_class") } }
          assert_match(/within 0.2 s: 1 of 2 are held/, error.message)
        end
      end
    end
  end

  def test_a_cancelled_statement_does_not_misalign_the_others
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select $1::int", [0])
        tasks = Array.new(60) { |n| NB.spawn { one(database.exec("select $1::int", [n])) } }
        NB.spawn { tasks.each_with_index { |task, n| task.cancel if n % 3 == 0 } }
        tasks.each_with_index do |task, n|
          value = outcome(task)
          assert_equal n.to_s, value unless NeverBlock::Cancelled === value
        end
        assert_equal "5", one(database.exec("select $1::int", [5]))
      end
    end
  end

  # The last who waits leaves what another has left behind him.
  def test_what_was_left_behind_others_is_given_up_too
    with_database(connections: 1) do |database|
      in_loop do
        10.times { database.exec("select pg_sleep($1)", [0]) } # so that two share the connection
        last = NB.spawn { database.exec("select pg_sleep($1)", [0.3]) }
        left = NB.spawn { database.exec("select pg_sleep($1)", [60]) }
        pass_until("both under way") { database.stats[:in_flight] == 2 }
        left.cancel
        last.value
        assert_equal "1", one(database.exec("select 1 for update"))
      end
    end
  end

  def test_a_slow_statement_that_nobody_waits_for_is_given_up
    with_database(connections: 2) do |database|
      in_loop do
        task = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the sleeper") { ask("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60%'") == "1" }
        task.cancel
        pass_until("its end") { ask("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60%'") == "0" }
        pass_until("its connection") { database.stats[:held] == 0 }
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  def test_a_lost_connection
    with_database(connections: 2) do |database|
      in_loop do
        task = NB.spawn { outcome(NB.spawn { database.exec("select pg_sleep(60)") }) }
        pass_until("the sleeper") { ask("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60%'") == "1" }
        ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'nb_%'")
        error = task.value
        assert_kind_of NeverBlock::Postgres::OutcomeUnknown, error
        assert error.message.end_with?("unknown)\n"), error.message
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  # Whoever gives a connection back may have nobody to read what others have sent on it meanwhile.
  def test_writes_that_queue_behind_transactions_go_on
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("create table behind (n int)")
        NB.concurrently(60.times.to_a, limit: 60) do |n|
          if n.even? then database.exec("insert into behind values ($1)", [n])
          else database.transaction { |connection| connection.exec("insert into behind values (#{n})") }
          end
        end
        assert_equal "60", one(database.exec("select count(*) from behind"))
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
        assert_match(/"a b" is no setting's name/, assert_raises(NeverBlock::ConfigurationError) { database.with_settings("a b" => 1) {} }.message)
      end
      assert_empty logged
    end
  end

  def test_where_text_does_not_mean_what_it_seems_to_nothing_is_shared
    {"standard_conforming_strings=off" => /standard_conforming_strings is "off"/, "search_path=shop,pg_catalog" => /before pg_catalog/,
     "client_encoding=SJIS" => /half of a character/}.each do |option, message|
      target = "#{url}&options=-c%20#{option.sub("=", "%3D")}"
      database = NeverBlock::Postgres.new(target, log: @logged.method(:<<))
      assert_match message, assert_raises(NeverBlock::ConfigurationError, option) { in_loop { database.exec("select 1") } }.message
      plain = NeverBlock::Postgres.new(target, share: false, log: @logged.method(:<<))
      assert_equal "1", in_loop { one(plain.exec("select 1")) }
    ensure
      [database, plain].each { |client| client&.close }
    end
  end

  def test_functions_of_a_newer_server_are_known
    skip "this PostgreSQL has no function that 14 has not" if ask("select current_setting('server_version_num')::int < 150000") == "t"
    with_database do |database|
      in_loop do
        database.exec("select 1")
        database.exec("select regexp_like('abc', 'b')")
        assert_empty logged
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

  def test_a_stale_plan
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("drop table if exists stale")
        database.exec("create table stale (a int)")
        database.exec("insert into stale values (1)")
        NB.concurrently(20.times.to_a, limit: 20) { database.exec("select * from stale where a = $1", [1]) }
        ask("alter table stale add b text default 'new'")
        rows = NB.concurrently(20.times.to_a, limit: 20) { database.exec("select * from stale where a = $1", [1]).values }
        assert_equal [[["1", "new"]]], rows.uniq
      end
    end
  end

  def test_a_write_beside_a_lease_that_lasts
    with_database(connections: 2, timeout: 1) do |database|
      in_loop do
        database.exec("create table if not exists beside (n int)")
        reader = NB.spawn { loop { database.exec("select 1") } }
        database.connect do |connection|
          connection.exec("LISTEN something")
          3.times { NB.spawn { database.exec("insert into beside values (1)") }.value }
        end
        reader.cancel
      end
    end
  end

  def test_connections_that_died_while_nobody_looked
    with_database(connections: 3) do |database|
      in_loop do
        database.exec("create table if not exists died (n int)")
        [-> { database.exec("insert into died values (1)") }, -> { database.transaction { |connection| connection.exec("insert into died values (1)") } }].each do |write|
          write.call
          sleep NeverBlock::Postgres::Backend::UNSEEN + 0.05
          ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'")
          pass_until("their end") { backends.zero? }
          write.call
        end
        assert_equal "4", one(database.exec("select count(*) from died"))
      end
    end
  end

  def test_whoever_gives_up_while_a_connection_is_opened_leaves_none_half_open
    opened = []
    connect = lambda do
      sleep 0.05
      PG.connect(url).tap { |pg| opened << pg }
    end
    database = NeverBlock::Postgres.new(connect, connections: 2, log: @logged.method(:<<))
    in_loop do
      tasks = Array.new(6) { NB.spawn { database.exec("select 1") } }
      pass_until("the openings") { database.stats[:opening] == 2 }
      tasks.each(&:cancel)
      pass_until("their connections") { database.stats.values_at(:opening, :idle) == [0, 2] }
      assert_equal "1", one(database.exec("select 1"))
      assert_equal 2, opened.size
    end
  ensure
    database&.close
  end

  def test_many_who_begin_open_one_connection_and_share_its_failure
    opened = 0
    connect = lambda do
      opened += 1
      sleep 0.02
      raise PG::ConnectionBad, "no server" if opened == 1
      PG.connect(url)
    end
    database = NeverBlock::Postgres.new(connect, connections: 4, log: @logged.method(:<<))
    in_loop do
      begin_all = -> { NB.concurrently(50.times.to_a, limit: 50) { database.connect { |connection| connection.exec("BEGIN").cmd_tuples } rescue $!.class } } # standard:disable Style/RescueModifier
      assert_equal [[PG::ConnectionBad], 1], [begin_all.call.uniq, opened]
      assert_equal [[0], 2], [begin_all.call.uniq, opened]
    end
  ensure
    database&.close
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

  # One is left to share where something shares.
  def test_sleepers_by_themselves_take_all_connections
    with_database(connections: 2) do |database|
      in_loop do
        tasks = Array.new(2) { NB.spawn { database.exec("select pg_sleep(0.5)") } }
        pass_until("two sleepers") { ask("select count(*) from pg_stat_activity where state = 'active' and application_name like 'nb_%' and query like 'select pg_sleep%'") == "2" }
        tasks.each(&:value)
      end
    end
  end

  # What no command tag and no reported setting shows.
  def test_an_audit_finds_what_a_function_left
    with_database(connections: 2, share: :reads, shareable_functions: ["sly"], audit: true, audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.exec("create or replace function sly(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$")
        assert_equal "acme", one(database.exec("select sly($1)", ["acme"]))
        assert_match(/kept something, and is closed: setting app.tenant: nil, then "acme". It was left by: select sly/, logged.last)
        assert_equal [nil], Array.new(6) { NB.spawn { one(database.exec("select nullif(current_setting('app.tenant', true), '')")) } }.map(&:value).uniq
        assert_equal 1, logged.grep(/kept something/).size
      end
    end
  end

  # At any byte: the statement's own answer may have come, and that of the question what it left not.
  def test_a_connection_that_is_lost_while_it_is_audited
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      database = NeverBlock::Postgres.new("postgresql://postgres@127.0.0.1:#{proxy.port}/postgres?sslmode=disable", connections: 1, audit: true, log: @logged.method(:<<))
      in_loop do
        (0..560).step(40) do |bytes|
          pass_until("a connection") { outcome(NB.spawn { database.exec("select $1::int", [1]) }).then { |value| PG::Result === value } }
          proxy.answers(bytes)
          task = NB.spawn { database.exec("select $1::int", [2]) }
          sleep 0.01
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

  # Whoever reads for all leaves while answers to audits are all that is awaited.
  def test_cancelled_statements_among_audited_ones
    with_database(connections: 2, audit: true) do |database|
      in_loop(limit: 15) do
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
end
