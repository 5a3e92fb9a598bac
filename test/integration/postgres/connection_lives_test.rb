# frozen_string_literal: true

# slow: it waits for limits

require "test_helper"
require "support/at_call"
require_relative "../../support/database"
require_relative "../../support/slow_names"

# The age of connections, their minimum number, and how they are opened.
class PostgresConnectionLivesTest < Minitest::Test
  include NeverBlockTest::AtCall
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers
  include NeverBlockTest::SlowNames

  # A transaction lasts longer, on the same connection, which is closed after it.
  def test_max_age_replaces_what_is_idle_and_interrupts_nothing
    with_database(max_age: 0.4) do |database|
      in_loop do
        idle = backend_of(database)
        pass_until("its end") { physical(database).none? { |real| real.pid.to_s == idle } }
        database.transaction do |connection|
          held = one(connection.exec("select pg_backend_pid()"))
          pass_until("its age") { physical(database).any?(&:stale) }
          assert_equal held, one(connection.exec("select pg_backend_pid()"))
        end
        pass_until("its end") { physical(database).none?(&:stale) }
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  # Each of many statements gets its answer while all connections are replaced, again and again.
  def test_max_age_under_load
    with_database(connections: 3, max_age: 0.2) do |database|
      in_loop do
        pids = []
        NB.concurrently(1..20) do |n|
          while pids.size < 15
            assert_equal n.to_s, one(database.exec("select $1::text", [n]))
            assert_equal [[n.to_s]], database.transaction { |connection| connection.exec("select $1::text", [n]).values } if n < 3
            pids |= physical(database).filter_map { |real| real.pid unless real.broken }
          end
        end
        assert_operator database.stats[:connections], :<=, 3
      end
    end
    assert_empty logged
  end

  def test_idle_connections_are_closed_down_to_the_minimum
    with_database(connections: 4, idle_timeout: 0.5, min_connections: 1) do |database|
      in_loop do
        NB.concurrently(1..4) { database.exec("select pg_sleep(0.2)") }
        pass_until("the others' end") { database.stats[:connections] == 1 && backends == 1 }
        kept = physical(database).map(&:pid)
        4.times { look_around }
        assert_equal kept, physical(database).map(&:pid)
      end
    end
  end

  def test_used_connections_are_kept
    with_database(connections: 4, idle_timeout: 1) do |database|
      in_loop do
        NB.concurrently(1..4) { database.exec("select pg_sleep(0.2)") }
        pids = physical(database).map(&:pid)
        pass_until("the others' end") { database.exec("select 1") && database.stats[:connections] == 1 }
        ends = now + 1.5
        pass_until("the limit") { database.exec("select 1") && now > ends }
        assert_equal 1, (pids & physical(database).map(&:pid)).size
      end
    end
  end

  # Neither an audit nor a keepalive counts as a use.
  def test_audits_and_keepalives_are_no_use
    with_database(idle_timeout: 1.5, keepalive: 0.1) do |database|
      in_loop { database.exec("select 1") }
      wait_until("a question") { physical(database).any? { |real| real.age.since_message < real.age.since_use } }
      wait_until("its end") { database.stats[:connections] == 0 }
    end
  end

  def test_keepalive_asks_the_server
    with_database(keepalive: 0.3) do |database|
      pid = in_loop { backend_of(database) }
      since = -> { ask("select extract(epoch from state_change) from pg_stat_activity where pid = #{pid}") }
      before = since.call
      wait_until("a question") { since.call != before }
      assert_equal pid, in_loop { backend_of(database) }
    end
  end

  # The keepalive, not a request, finds a connection that a firewall has dropped.
  def test_keepalive_finds_what_has_ended
    with_database(keepalive: 0.3) do |database|
      pid = in_loop { backend_of(database) }
      ask("select pg_terminate_backend(#{pid})")
      wait_until("its end") { database.stats[:connections] == 0 }
      refute_equal pid, in_loop { backend_of(database) }
    end
  end

  def test_nothing_changes_unless_it_is_said
    with_database do |database|
      refute multiplexer(database).lifespan.any?
      in_loop { NB.concurrently(1..4) { database.exec("select pg_sleep(0.1)") } }
      assert_equal NeverBlock::Postgres::Janitor::INTERVAL, multiplexer(database).every
      assert_equal 4, database.stats[:connections]
    end
  end

  def test_a_warm_start
    with_database(connections: 4, min_connections: 3) do |database|
      wait_until("all of them") { database.stats.values_at(:connections, :idle, :opening) == [3, 3, 0] }
      pids = physical(database).map(&:pid)
      in_loop { assert_includes pids.map(&:to_s), backend_of(database) }
      assert_equal 3, backends
    end
  end

  # One after the other, with pauses that grow with the server's connect time.
  def test_a_warm_start_is_no_storm
    opened = []
    at_once = most = 0
    target = lambda do
      at_once += 1
      most = [most, at_once].max
      opened << now
      sleep(0.05) # real: a server that takes so long to let a connection in
      PG.connect(url)
    ensure
      at_once -= 1
    end
    with_database(connections: 5, min_connections: 4, target:) do |database|
      wait_until("all of them") { database.stats[:connections] == 4 }
    end
    assert_equal 1, most
    pauses = opened.each_cons(2).map { |before, after| after - before }
    assert_operator pauses.min, :>=, 0.05 + 0.05 * 10 / 2
  end

  # So that not all processes of an app connect at once.
  def test_a_warm_start_begins_by_chance
    first = Array.new(5) do
      began = now
      opened = nil
      with_database(min_connections: 1, target: -> { (opened = now) && PG.connect(url) }) { wait_until("it") { opened } }
      opened - began
    end
    assert_operator first.max - first.min, :>, 0.01
  end

  def test_after_an_outage_there_are_as_many_again
    down = true
    attempts = 0
    target = lambda do
      attempts += 1
      raise PG::ConnectionBad, "no server" if down
      PG.connect(url)
    end
    with_database(connections: 6, min_connections: 3, target:) do |database|
      wait_until("the first attempt") { attempts > 0 && logged.any? }
      assert_match(/min_connections: 3 are not reached, because one could not be opened: no server/, logged.first)
      assert_equal 1, attempts, "it is left alone until something else comes"
      down = false
      in_loop { pass_until("a first one") { one(database.exec("select 1")) rescue PG::ConnectionBad } } # standard:disable Style/RescueModifier
      wait_until("the others") { database.stats[:connections] == 3 }
      terminate
      in_loop { pass_until("a new one") { one(database.exec("select 1")) rescue PG::ConnectionBad } } # standard:disable Style/RescueModifier
      wait_until("the others") { database.stats[:connections] == 3 && physical(database).all? { |real| real.broken.nil? } }
    end
  end

  # Without any request: at the janitor's next round.
  def test_missing_connections_are_opened_later
    with_database(connections: 4, min_connections: 2, keepalive: 0.2) do |database|
      wait_until("all of them") { database.stats[:connections] == 2 }
      gone = physical(database).map(&:pid)
      ask("select pg_terminate_backend(#{gone.first})")
      wait_until("another") { database.stats[:connections] == 2 && !physical(database).map(&:pid).include?(gone.first) }
    end
  end

  # All connections get the settings that an adapter sets while it connects.
  def test_they_have_the_session_defaults_of_the_adapter
    with_database(connections: 4, min_connections: 3, warm: false) do |database|
      in_loop do
        connection = database.connection
        connection.configure { connection.exec("set work_mem to '5MB'") }
        assert_equal "5MB", one(connection.exec("show work_mem"))
        pass_until("all of them") { physical(database).count { |real| real.session_defaults == connection.session_defaults } == 3 }
      ensure
        connection&.finish
      end
    end
  end

  # Idle connections that were opened before the adapter's settings were known.
  def test_connections_with_other_session_defaults_make_room
    with_database(connections: 3, min_connections: 3) do |database|
      wait_until("all of them") { database.stats[:connections] == 3 }
      in_loop do
        database.exec("select 1")
        connection = database.connection
        connection.configure { connection.exec("set work_mem to '5MB'") }
        assert_equal "5MB", one(connection.exec("show work_mem"))
        pass_until("all of them") { physical(database).count { |real| real.session_defaults == connection.session_defaults } == 3 }
        assert_equal 3, backends
      ensure
        connection&.finish
      end
    end
  end

  # A rake task needs one connection, and DROP DATABASE needs none to be open.
  def test_a_script_opens_what_it_needs
    with_database(connections: 4, min_connections: 3, warm: false) do |database|
      connection = database.connection(member: true)
      assert_equal 0, calls(NeverBlock::Postgres::WarmStart, :activate) { connection.exec("select 1") && connection.check_in }
      in_loop { database.exec("select 1") }
      wait_until("all of them") { database.stats[:connections] == 3 }
      connection.finish
      look_around
      assert_equal 0, database.stats[:connections]
    end
  end

  def test_a_child_has_its_own
    with_database(connections: 3, min_connections: 2) do |database|
      wait_until("all of them") { database.stats[:connections] == 2 }
      before = ObjectSpace.each_object(NeverBlock::Postgres::Turnover).to_a
      child = fork do
        in_loop { database.exec("select 1") }
        wait_until("all of them") { database.stats[:connections] == 2 }
        exit!(backends == 4 && before.none?(&:look_around))
      end
      assert Process.wait2(child).last.success?
      assert_equal "1", in_loop { one(database.exec("select 1")) }
    end
  end

  # A failover by DNS: each new connection looks the name up.
  def test_a_name_is_asked_for_by_each_new_connection
    NeverBlockTest::PostgresServer.open(listen_addresses: "127.0.0.1,127.0.0.2") do |server|
      server.query("create view addresses as select client_addr, inet_server_addr() as server from pg_stat_activity where pid = pg_backend_pid()")
      with_names({"db.test" => {"127.0.0.1" => 0}}) do |names|
        output = assert_ruby(<<~RUBY, gems: true, **names)
          require "neverblock"
          require "neverblock/postgres"
          database = NeverBlock::Postgres.new({host: "db.test", port: #{server.port}, user: "postgres", dbname: "postgres"}, max_age: 0.3)
          address = -> { database.exec("select host(server) from addresses").getvalue(0, 0) }
          NeverBlock.run do
            puts address.call
            ENV["NEVERBLOCK_TEST_NAMES"] = "db.test=0:127.0.0.2"
            # real: the servers behind the name
            sleep 0.01 until address.call == "127.0.0.2"
            puts address.call
          end
          ENV["NEVERBLOCK_TEST_NAMES"] = "db.test=0:127.0.0.1"
          # real: the servers behind the name, outside of a loop
          sleep 0.01 until address.call == "127.0.0.1"
          puts address.call
        RUBY
        assert_equal %w[127.0.0.1 127.0.0.2 127.0.0.1], output.split
        assert_operator names.questions.size, :>=, 3
      end
    end
  end

  private

  def backend_of(database) = one(database.exec("select pg_backend_pid()"))

  def look_around = NeverBlock::Postgres::Janitor.run_once
end
