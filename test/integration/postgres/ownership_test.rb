# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# Ownership of what outlives its use: parameters that are used again, connections that are kept, libpq's modes, requests
# to cancel.
class PostgresOwnershipTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers

  def test_parameters_are_copied_before_they_are_sent
    with_database(connections: 2) do |database|
      in_loop do
        ask = ->(sql, params) { NB.spawn { one(database.exec(sql, params)) } }
        row = [nil]
        assert_equal %w[0 1 2 3 4], Array.new(5) { |n| (row[0] = n) && ask.call("select $1::int", row).tap { NB.pass } }.map(&:value)
        text = +""
        assert_equal %w[0 1 2 3 4], Array.new(5) { |n| text.replace(n.to_s) && ask.call("select $1::int", [text]).tap { NB.pass } }.map(&:value)
        sql = +""
        assert_equal %w[0 1 2 3 4], Array.new(5) { |n| sql.replace("select #{n}") && NB.spawn { one(database.exec(sql)) }.tap { NB.pass } }.map(&:value)
        holder = NB.spawn { database.connect { |connection| connection.exec("begin") && connection.exec("select pg_sleep(0.2)") } }
        pass_until("its lease") { database.stats[:held] == 1 }
        database.connect do |connection|
          list = [+"a"]
          asked = NB.spawn { one(connection.exec_params("insert into pg_temp.none values ($1) returning 1", list)) }
          NB.pass
          list[0].replace("b")
          list << "c"
          assert_kind_of PG::UndefinedTable, outcome(asked), "with one parameter"
        end
        holder.value
      end
    end
  end

  def test_what_is_copied_keeps_its_class
    list = Class.new(Array)
    encoders = PG::TypeMapByClass.new
    encoders[list] = PG::TextEncoder::Array.new(elements_type: PG::TextEncoder::Integer.new)
    encoders[Integer] = PG::TextEncoder::Integer.new
    with_database(connections: 2) do |database|
      in_loop { database.connect { |connection| assert_equal "{1,2}", one(connection.exec_params("select $1::int[]", [list[1, 2]], 0, encoders)) } }
    end
  end

  def test_rows_after_a_mode_of_single_rows
    with_database(connections: 2) do |database|
      modes = {set_single_row_mode: []}
      modes[:set_chunked_rows_mode] = [2] if PG::Connection.method_defined?(:set_chunked_rows_mode)
      work = lambda do
        modes.each do |mode, arguments|
          database.connect do |connection|
            [-> { connection.get_result.stream_each.to_a }, -> { connection.get_result.stream_each { break } }, -> { connection.get_last_result }].each do |read|
              connection.send_query("select generate_series(1, 5)")
              connection.public_send(mode, *arguments)
              read.call
              assert_equal [3, 3], Array.new(2) { connection.exec("select generate_series(1, 3)").ntuples }, mode
            end
          end
        end
      end
      work.call
      in_loop { work.call }
    end
  end

  # A child that still waits for notifications would get those of the connection's next user.
  def test_a_child_that_outlives_its_connection
    with_database(connections: 2) do |database|
      in_loop do
        child = nil
        database.connect do |connection|
          connection.exec("listen news")
          child = NB.spawn { connection.wait_for_notify(5) { |*news| news } }
          pass_until("it waits") { database.stats[:held] == 1 && NB.pass.nil? }
        end
        database.connect do |connection|
          connection.exec("listen secret")
          connection.exec("notify secret, 'of another one'")
          assert_equal "secret", connection.wait_for_notify(5)
        end
        refute_kind_of Array, outcome(child)
        assert_equal "1", one(database.exec("select 1"))
      end
    end
  end

  def test_a_connection_that_is_kept_is_closed
    with_database(connections: 2) do |database|
      in_loop do
        kept = %i[connect transaction without_multiplexing].map { |way| database.public_send(way) { |connection| connection.tap { connection.exec("select 1") } } }
        kept << database.with_settings("app.x" => 1, &:itself)
        kept.each { |connection| ["begin", "set app.x = 1", "select 1"].each { |sql| assert_raises(PG::ConnectionBad) { connection.exec(sql) } } }
        kept.each { |connection| assert_raises(PG::ConnectionBad) { connection.wait_for_notify(0) } }
        assert_equal 0, database.stats[:held]
      end
    end
  end

  # A cancel request may arrive at any time.
  slow "many statements"
  def test_a_request_to_cancel_at_the_end_of_a_transaction
    with_database(connections: 3) do |database|
      in_loop do
        over = false
        others = Array.new(4) { |n| NB.spawn { one(database.exec("select $1::int", [n])) until over } }
        60.times do |n|
          held = nil
          mine = NB.spawn { database.transaction { |connection| (held = connection).exec("select pg_sleep(0.003)") } }
          pass_until("its transaction") { held }
          sleep 0.001 + n % 6 * 0.0005 # real: the database runs a statement of 3 ms
          held.cancel unless held.finished?
          outcome(mine)
        end
        over = true
        others.each(&:value) # none was cancelled
      end
    end
  end

  # Its fibers return connections that tasks of an ended loop can't reset.
  slow "many statements"
  def test_a_thread_that_is_killed_with_its_loop
    [->(database) { database.exec("select pg_sleep(5)") },
      ->(database) { database.transaction { |connection| connection.exec("select txid_current(), pg_sleep(5)") } },
      ->(database) { database.connect { |connection| connection.exec("set app.x = 1") && connection.exec("select pg_sleep(5)") } }].each do |work|
      with_database(connections: 2) do |database|
        thread = Thread.new { NB.run { NB.concurrently([1, 2, 3], limit: 3) { work.call(database) } } }
        wait_until("they sleep") { ask("select count(*) > 0 from pg_stat_activity where wait_event = 'PgSleep' and application_name = 'nb_#{name[0, 50]}'") == "t" }
        thread.kill.join
        assert_equal 0, database.stats[:held]
        in_loop { assert_equal %w[1 2 3], NB.concurrently([1, 2, 3], limit: 3) { |n| database.transaction { |connection| one(connection.exec("select #{n}")) } } }
        wait_until("all is rolled back") { ask("select count(*) from pg_stat_activity where state like '%transaction%' and application_name = 'nb_#{name[0, 50]}'") == "0" }
      end
    end
  end

  def test_a_kept_connection_in_a_forked_child
    with_database(connections: 2) do |database|
      connection = database.connection
      assert_equal "1", one(connection.exec("select 1"))
      connection.check_in
      in_loop { assert_equal "1", one(connection.exec("select 1")) }
      reader, writer = IO.pipe
      pid = fork do
        writer << NB.run { one(connection.exec("select 'of the child'")) }
        exit!(0)
      end
      writer.close
      assert_equal "of the child", reader.read
      Process.wait(pid)
    ensure
      [reader, writer].compact.each(&:close)
    end
  end
end
