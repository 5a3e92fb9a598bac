# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Statements that fail, stale texts and plans, parameters and notices.
class PostgresStatementsTest < Minitest::Test
  include NeverBlockTest::Database

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

  # Prepare and execute are sent together: an answer to Parse isn't one to Execute.
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

  def test_bytes_that_are_no_text_do_not_spoil_the_log
    with_database do |database|
      in_loop { database.connect { |connection| assert_raises(PG::CharacterNotInRepertoire) { connection.exec("select '\xff'") } } }
      assert_equal ["a connection was held until check-in, and is reset, because of: select '?'"], logged
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

  # Active Record deallocates a name after it has altered a table.
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

  # One thread gives names up while another sends: a name must not vanish between look-up and use.
  def test_names_that_threads_give_up_while_they_are_used
    with_database(connections: 2) do |database|
      multiplexer = multiplexer(database)
      texts = Array.new(3) { |n| -"select $1::int + #{n}" }
      over = false
      forgetful = Thread.new { texts.each { |text| multiplexer.definitions.forget(text) } && Thread.pass until over }
      in_loop do
        NB.concurrently(4.times.to_a, limit: 4) do |worker|
          100.times do |n|
            text = texts[n % 3]
            if worker.zero?
              assert_equal (5 + n % 3).to_s, one(database.transaction { |connection| connection.exec("select 1") && connection.prepare("a", text) && connection.exec_prepared("a", [5]) })
            else
              assert_equal (5 + n % 3).to_s, one(database.connect { |connection| connection.prepare("b", text) && connection.exec_prepared("b", [5]) })
            end
          end
        end
      end
    ensure
      over = true
      forgetful&.join
    end
  end

  def test_a_stale_plan
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("drop table if exists stale")
        database.exec("create table stale (a int)")
        database.exec("insert into stale values (1)")
        database.connect do |connection|
          connection.prepare("a", "select * from stale where a = $1")
          NB.concurrently(20.times.to_a, limit: 20) { connection.exec_prepared("a", [1]) }
          ask("alter table stale add b text default 'new'")
          rows = NB.concurrently(20.times.to_a, limit: 20) { connection.exec_prepared("a", [1]).values }
          assert_equal [[["1", "new"]]], rows.uniq
        end
      end
    end
  end

  def test_a_stale_plan_in_a_transaction_can_be_rolled_back
    with_database(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("create table nb_stale (id int)")
          connection.prepare("a", "select * from nb_stale")
          connection.exec_prepared("a")
          ask("alter table nb_stale add name text")
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

  # libpq keeps errors and settings per connection, which is shared; each virtual connection reports its own.
  def test_errors_and_settings_of_other_connections_are_not_reported
    with_database(connections: 1) do |database|
      in_loop do
        other, mine = Array.new(2) { database.connection }
        other.configure { other.exec("set time zone 'Asia/Tokyo'") }
        mine.configure { mine.exec("set time zone 'Europe/Paris'") }
        assert_raises(PG::InvalidTextRepresentation) { other.exec("select 'secret'::int") }
        assert_equal ["", "Europe/Paris"], [mine.error_message, mine.parameter_status("TimeZone")]
        assert_equal "Asia/Tokyo", other.parameter_status("TimeZone")
        assert_match(/secret/, other.error_message)
      ensure
        [other, mine].each { |connection| connection&.check_in }
      end
    end
  end

  # It was parsed, but not sent: the connection is still usable.
  def test_a_parameter_that_cannot_be_sent
    with_database(connections: 2) do |database|
      in_loop do
        pids = -> { ask("select pid from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'").split }
        database.exec("select $1::text", ["known"])
        before = pids.call
        assert_equal %w[0 1 2 3], NB.concurrently(4.times.to_a) { |n|
          assert_raises(ArgumentError) { database.exec("select $1::text as t#{n}", ["a\0b"]) }
          one(database.exec("select $1::text as t#{n}", [n]))
        }
        assert_empty logged
        assert_empty before - pids.call, "none was closed"
      end
    end
  end

  def test_parameter_status_is_of_one_s_own_session_defaults
    with_database(connections: 3) do |database|
      in_loop do
        zones = ["Asia/Tokyo", "America/Lima"].map do |zone|
          database.connect do |connection|
            connection.configure { connection.exec("SET TIME ZONE '#{zone}'") }
            connection.parameter_status("TimeZone")
          end
        end
        assert_equal ["Asia/Tokyo", "America/Lima"], zones
      end
    end
  end

  def test_a_log_line_is_one_line
    with_database do |database|
      in_loop { database.connect { |connection| connection.exec("do $$\nbegin\n  perform 1;\nend $$") } }
      assert_equal ["a connection was held until check-in, and is reset, because of: do $$ begin perform 1; end $$"], logged
    end
  end

  # The simple protocol would execute both.
  def test_a_text_with_a_semicolon_is_never_sent_as_several_statements
    pg = PG.connect(url)
    wire = NeverBlock::Postgres::Wire.new(pg)
    reads = ["select 1; select 2", "select 1;select 2", "select 'a;b'", "select 1;", "select 1"].map do |sql|
      wire.ask(NeverBlock::Postgres::Read.new(sql, NeverBlock::Postgres::Statement::NONE, 0, nil, nil, nil, nil, 0.0, nil, nil), true, 0.0).values
    rescue PG::SyntaxError => error
      error.message[/multiple commands/]
    end
    assert_equal ["multiple commands", "multiple commands", [["a;b"]], [["1"]], [["1"]]], reads
  ensure
    pg&.close
  end

  # pg sends exec(sql, []) as exec_params does, whose error differs from exec(sql)'s.
  def test_an_empty_array_of_parameters_is_as_in_pg
    message = "ERROR:  bind message supplies 0 parameters, but prepared statement \"\" requires 1\n"
    with_database(connections: 2) do |database|
      errors = in_loop do
        database.exec("select 1")
        inside = ->(connection) { connection.exec("select 1") && connection.exec("select $1::int", []) }
        [-> { database.exec("select $1::int", []) }, -> { database.connect(&inside) }, -> { database.transaction(&inside) }]
          .map { |way| assert_raises(PG::ProtocolViolation, &way).message }
      end
      assert_equal [message] * 3, errors
    end
  end

  # pg converts it, so that it has an effect: it counts as the same text in UTF-8, and so does its log line.
  def test_a_statement_in_utf_16
    ask("create table utf16 (s text)")
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("insert into utf16 values ('é')".encode("UTF-16LE"))
        assert_equal "ä", one(database.exec("select 'ä'".encode("UTF-16BE")))
        database.connect do |connection|
          connection.exec("set application_name = 'ö'".encode("UTF-16LE"))
          connection.prepare("kept", "select s || $1 from utf16".encode("UTF-16LE"), [25])
          assert_equal "éü", one(connection.exec_prepared("kept", ["ü"]))
        end
      end
    end
    assert_equal "é", ask("select string_agg(s, ',') from utf16")
    assert_equal ["a connection was held until check-in, and is reset, because of: SET application_name"], logged
  ensure
    ask("drop table if exists utf16")
  end
end
