# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/virtual_time"
require_relative "../../support/database"

# Connections that are opened, waited for, abandoned and lost.
class PostgresConnectionsTest < Minitest::Test
  include NeverBlockTest::Database

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

  def test_a_wait_under_a_busy_processor_names_that
    share = NeverBlock::ProcessorShare.new(computed: -> { 0.9 * Process.clock_gettime(Process::CLOCK_MONOTONIC) }) # even on a busy machine
    NeverBlock::ProcessorShare.stub(:new, share) do
      with_database(connections: 1, timeout: 0.2) do |database|
        in_loop do
          database.transaction do |connection|
            connection.exec("select 1")
            error = assert_raises(NeverBlock::Postgres::PoolTimeout) { database.transaction { |other| other.exec("select 1") } }
            assert_match(/1 of 1 are held .* This process computed for 90 % of the last 0.2 s: the processor is the bottleneck\./, error.message)
            refute_match(/Raise connections/, error.message)
          end
        end
      end
    end
  end

  def test_whoever_gives_up_while_a_connection_is_opened_leaves_none_half_open
    opened = []
    gate = Thread::Queue.new
    connect = lambda do
      gate.pop
      PG.connect(url).tap { |pg| opened << pg }
    end
    database = NeverBlock::Postgres.new(connect, connections: 2, log: @logged.method(:<<))
    in_loop do
      tasks = Array.new(6) { |n| NB.spawn { n.even? ? database.exec("select 1") : database.transaction { |connection| connection.exec("select 1") } } }
      pass_until("the openings") { database.stats[:opening] == 2 }
      tasks.each(&:cancel)
      2.times { gate << 1 }
      pass_until("their connections") { database.stats.values_at(:opening, :idle) == [0, 2] }
      assert_equal "1", one(database.exec("select 1"))
      assert_equal 2, opened.size
    end
  ensure
    database&.close
  end

  def test_simultaneous_first_requests_open_one_connection_and_share_its_failure
    opened = 0
    connect = lambda do
      opened += 1
      sleep 0.02 # real: a server that takes so long to respond
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

  # The last waiting fiber gives up another fiber's abandoned statement.
  slow "it starts the database again"
  def test_a_statement_abandoned_behind_others_is_cancelled_too
    with_database(connections: 1) do |database|
      in_loop do
        take_for_fast(database)
        last = NB.spawn { database.exec("select pg_sleep($1)", [1]) }
        left = NB.spawn { database.exec("select pg_sleep($1)", [60]) }
        pass_until("both under way") { database.stats[:in_flight] == 2 }
        left.cancel
        last.value
        assert_equal "1", one(database.exec("select 1 for update"))
      end
    end
  end

  # Each needs a cancel request of its own, and isn't waited for.
  slow "it starts the database again"
  def test_several_abandoned_statements_are_cancelled
    with_database(connections: 1, shareable_functions: ["pg_backend_pid"]) do |database|
      in_loop do
        take_for_fast(database)
        pid = one(database.exec("select pg_backend_pid()"))
        sleepers = Array.new(3) { NB.spawn { database.exec("select pg_sleep($1)", [60]) } }
        pass_until("all under way") { database.stats[:in_flight] == 3 }
        sleepers.each(&:cancel).each { |task| outcome(task) }
        assert_equal pid, one(NB.timeout(8) { database.exec("select pg_backend_pid()") }), "it was worth keeping"
      end
    end
  end

  def test_an_abandoned_slow_statement_is_cancelled
    with_database(connections: 2) do |database|
      in_loop do
        task = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the sleeper") { active("select pg_sleep(60%") == 1 }
        task.cancel
        pass_until("its end") { active("select pg_sleep(60%") == 0 }
        pass_until("its connection") { database.stats[:held] == 0 }
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  def test_a_lost_connection
    with_database(connections: 2) do |database|
      in_loop do
        task = NB.spawn { outcome(NB.spawn { database.exec("select pg_sleep(60)") }) }
        pass_until("the sleeper") { active("select pg_sleep(60%") == 1 }
        terminate
        error = task.value
        assert_kind_of NeverBlock::Postgres::OutcomeUnknown, error
        assert error.message.end_with?("unknown)\n"), error.message
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  slow "it starts the database again"
  def test_connections_that_died_while_they_were_idle
    NeverBlockTest::VirtualTime.during do |clock|
      with_database(connections: 3) do |database|
        in_loop do
          database.exec("create table if not exists died (n int)")
          [-> { database.exec("insert into died values (1)") }, -> { database.transaction { |connection| connection.exec("insert into died values (1)") } }].each do |write|
            write.call
            clock.advance(NeverBlock::Postgres::PipelinedConnection::PROBE_AFTER + 0.05)
            terminate
            pass_until("their end") { backends.zero? }
            write.call
          end
          assert_equal "4", one(database.exec("select count(*) from died"))
        end
      end
    end
  end

  # The server has announced that it ends the connection, and hasn't done so yet: statements sent now are lost.
  slow "it starts the database again"
  def test_a_connection_that_is_about_to_end_gets_nothing_more
    held_open do |port|
      connect = -> { PG.connect(host: "127.0.0.1", port:, dbname: "postgres", user: NeverBlockTest::Database.server.user) }
      database = NeverBlock::Postgres.new(connect, connections: 1, log: @logged.method(:<<))
      in_loop do
        database.exec("create table if not exists ending (n int)")
        before = physical(database).first.tap { ask("select pg_terminate_backend(#{_1.pid})") }
        assert before.pg.socket_io.wait_readable(10), "its last words"
        sleep NeverBlock::Postgres::PipelinedConnection::PROBE_AFTER + 0.05 # real: a back end that announced its end
        assert_empty capture_io { database.exec("insert into ending values (1)") }.last
        assert_match(/terminating connection due to administrator command/, before.broken.message)
        assert_equal "1", one(database.exec("select count(*) from ending"))
      end
    ensure
      database&.close
    end
  end

  def test_where_text_does_not_mean_what_it_seems_to_nothing_is_shared
    {"standard_conforming_strings=off" => /standard_conforming_strings is "off"/, "search_path=shop,pg_catalog" => /before pg_catalog/,
     "client_encoding=SJIS" => /half of a character/}.each do |option, message|
      target = "#{url}&options=-c%20#{option.sub("=", "%3D")}"
      database = NeverBlock::Postgres.new(target, log: @logged.method(:<<))
      assert_match message, assert_raises(NeverBlock::ConfigurationError, option) { in_loop { database.exec("select 1") } }.message
      plain = NeverBlock::Postgres.new(target, multiplex: false, log: @logged.method(:<<))
      assert_equal "1", in_loop { one(plain.exec("select 1")) }
    ensure
      [database, plain].each { |client| client&.close }
    end
  end

  # A server with much to do takes long for it: it reads its catalogue, parses and plans.
  def test_the_first_run_on_a_connection_makes_no_fast_shape_slow
    with_database(connections: 3) do |database|
      in_loop do
        take_for_fast(database)
        pause = lambda do |seconds|
          database.connect { |connection| connection.prepare("pause", "select pg_sleep($1)") && connection.exec_prepared("pause", [seconds]) }
        end
        pause.call(0)
        database.transaction { Array.new(2) { NB.spawn { pause.call(0.3) } }.each(&:value) }
        assert_equal 3, database.stats[:size]
        assert fast?(database, "select pg_sleep($1)")
      end
    end
  end

  private

  # Makes several of them share the connection. On a busy machine this may take more runs.
  def take_for_fast(database, sql = "select pg_sleep($1)")
    pass_until("#{sql} to be known as fast") { 10.times { database.exec(sql, [0]) } && fast?(database, sql) }
  end

  # A network on which the server's close of a connection doesn't arrive.
  # @yieldparam port [Integer]
  def held_open
    listener = TCPServer.new("127.0.0.1", 0)
    sockets = [listener]
    relay = Thread.new do
      while (client = listener.accept)
        sockets.push(client, server = UNIXSocket.new(NeverBlockTest::Database.server.socket))
        [[client, server], [server, client]].each { |from, to| Thread.new { copy(from, to) } }
      end
    rescue IOError
      nil # the connection was closed
    end
    yield listener.local_address.ip_port
  ensure
    sockets&.each(&:close)
    relay&.join
  end

  def copy(from, to)
    loop { to.write(from.readpartial(4096)) }
  rescue IOError, SystemCallError
    nil
  end
end
