# frozen_string_literal: true

require "test_helper"
require_relative "../support/mysql"

# MySQL for many fibers over few connections: statements, transactions, session state.
class MySQLTest < Minitest::Test
  include NeverBlockTest::MySQL

  def test_a_statement_inside_and_outside_of_a_loop
    with_mysql do |database|
      assert_equal 7, one(database.query("select 7"))
      assert_equal ["1", "2"], in_loop { NB.concurrently([1, 2]) { |n| one(database.query("select '#{n}'")) } }
      assert_equal 0, database.stats[:busy]
    end
  end

  def test_ten_statements_sleep_at_the_same_time
    with_mysql(connections: 12) do |database|
      in_loop do
        mark = "at once #{rand(1 << 40)}"
        tasks = 10.times.map { NB.spawn { database.query("select sleep(60) as `#{mark}`") } }
        pass_until("ten at once") { ask("select count(*) from information_schema.processlist where info like 'select sleep%#{mark}%'") == "10" }
        tasks.each(&:cancel)
        tasks.each { |task| assert_kind_of NeverBlock::Cancelled, outcome(task) }
      end
    end
  end

  def test_more_fibers_than_connections
    with_mysql(connections: 3) do |database|
      in_loop do
        assert_equal (1..200).to_a, NB.concurrently((1..200).to_a, limit: 200) { |n| one(database.query("select #{n}")) }
      end
      assert_operator database.stats[:opened], :<=, 3
      assert_equal 0, database.stats[:unclean]
    end
  end

  def test_errors_of_the_server_leave_the_connection_in_use
    with_mysql(connections: 1) do |database|
      in_loop do
        assert_match(/1064/, assert_raises(Trilogy::QueryError) { database.query("select from where") }.message)
        assert_equal 1, one(database.query("select 1"))
      end
      assert_equal 1, database.stats[:opened]
    end
  end

  def test_transactions
    with_table do |table|
      with_mysql(connections: 2) do |database|
        in_loop do
          NB.concurrently(20.times.to_a, limit: 20) do |n|
            database.transaction do |connection|
              connection.query("insert into #{table} (n) values (#{n})")
              raise "no" if n.odd?
            end
          rescue RuntimeError
            nil
          end
          assert_equal 10, one(database.query("select count(*) from #{table}"))
        end
        assert_equal 0, database.stats[:unclean], "rolled back and used again"
      end
    end
  end

  # Each fiber finds what its own statements have left, and nothing of others.
  def test_session_state_is_each_fiber_s_own
    with_table_in_loop(connections: 4) do |database, table|
      NB.concurrently(60.times.to_a, limit: 60) do |n|
        database.connect do |connection|
          case n % 4
          when 0
            connection.query("set @mine = #{n}")
            NB.pass
            assert_equal n, one(connection.query("select @mine"))
          when 1
            connection.query("create temporary table scratch (n int)")
            connection.query("insert into scratch values (#{n})")
            assert_equal n, one(connection.query("select n from scratch"))
          when 2
            connection.query("insert into #{table} (n) values (#{n})")
            id = connection.last_insert_id
            sleep 0.001 # real: others get statements to the server over the connection
            assert_equal id, one(connection.query("select last_insert_id()"))
            assert_equal n, one(connection.query("select n from #{table} where id = #{id}"))
          else
            assert_nil one(connection.query("select @mine"))
            assert_raises(Trilogy::ProtocolError) { connection.query("select n from scratch") }
            assert_equal 0, one(connection.query("select last_insert_id()"))
          end
        end
      end
    end
  end

  def test_settings_end_with_their_session
    with_mysql(connections: 1) do |database|
      in_loop do
        before = one(database.query("select @@sql_mode"))
        database.connect do |connection|
          connection.query("set sql_mode = 'ANSI_QUOTES'")
          assert_equal "ANSI_QUOTES", one(connection.query("select @@sql_mode"))
        end
        assert_equal before, one(database.query("select @@sql_mode"))
        assert_equal 1, database.stats[:unclean]
      end
    end
  end

  def test_advisory_locks_end_with_their_session
    with_mysql(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          assert_equal 1, one(connection.query("select get_lock('a lock', 0)"))
          assert_equal 0, one(database.query("select is_free_lock('a lock')"))
        end
        pass_until("its release") { one(database.query("select is_free_lock('a lock')")) == 1 }
      end
    end
  end

  # The server itself reports it, since the text shows nothing.
  def test_a_function_that_leaves_a_variable
    with_mysql(connections: 1, shareable_functions: ["nb_leaves"]) do |database|
      in_loop do
        database.query("create or replace function nb_leaves() returns int begin set @left = 5; return 1; end")
        database.connect do |connection|
          connection.query("select nb_leaves()")
          assert connection.changed?, "the server reports it"
          assert_equal 5, one(connection.query("select @left"))
        end
        assert_nil one(database.query("select @left"))
      end
    end
  ensure
    ask("drop function if exists nb_leaves")
  end

  def test_a_trigger_and_a_view_that_use_session_state
    with_table do |table|
      ask("create trigger #{table}_t before insert on #{table} for each row set @seen = get_lock('of a trigger', 0)")
      ask("create view #{table}_v as select last_insert_id() as n")
      with_mysql(connections: 1) do |database|
        in_loop do
          2.times do
            database.query("insert into #{table} (n) values (1)")
            assert_equal 0, one(database.query("select n from #{table}_v"))
          end
          pass_until("the release") { one(database.query("select is_free_lock('of a trigger')")) == 1 }
        end
      end
    ensure
      ask("drop view #{table}_v")
    end
  end

  # A text that the classifier does not understand, with a "@".
  def test_a_view_that_gets_another_text_with_a_definer
    with_mysql(connections: 1) do |database|
      connections = database.connections([])
      database.query("create or replace view nb.changing as select 1 as n")
      assert_equal :read, connections.classify("select n from nb.changing").kind
      user, host = one(database.query("select current_user()")).split("@")
      database.query("alter definer = `#{user}`@`#{host}` view nb.changing as select last_insert_id() as n")
      assert_match(/is a view/, connections.classify("select n from nb.changing").reason)
    ensure
      database.query("drop view if exists nb.changing")
    end
  end

  # Where it is not built in, as rank is in MySQL 5.7.
  def test_a_stored_function_with_the_name_of_a_built_in_one
    with_mysql(connections: 1) do |database|
      connections = database.connections([])
      assert_equal :read, connections.classify("select ntile(2)").kind
      database.query("create function nb.ntile(a int) returns int return a")
      assert_match(/stored function/, connections.classify("select ntile(2)").reason)
    ensure
      database.query("drop function nb.ntile")
    end
  end

  def test_the_end_of_a_transaction_by_a_definition
    with_table_in_loop(connections: 1) do |database, table|
      database.connect do |connection|
        connection.query("begin")
        connection.query("insert into #{table} (n) values (1)")
        assert_predicate connection, :in_transaction?
        connection.query("alter table #{table} add m int")
        refute_predicate connection, :in_transaction?
      end
      assert_equal 1, one(database.query("select count(*) from #{table}"))
    end
  end

  def test_an_isolation_level_is_for_one_transaction
    with_mysql(connections: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.query("set transaction isolation level serializable")
          connection.query("begin")
          connection.query("commit")
        end
        database.connect { |connection| connection.query("set transaction isolation level serializable") }
        assert_equal 1, database.stats[:unclean], "the second was not used up"
      end
    end
  end

  def test_several_statements_and_results
    with_mysql(connections: 1, target: {**NeverBlockTest::MySQL.server.options, multi_statement: true}) do |database|
      in_loop do
        database.connect do |connection|
          assert_equal 1, one(connection.query("select 1; select 2; select 3"))
          assert_predicate connection, :more_results_exist?
          assert_equal 2, one(connection.next_result)
          assert_equal 1, connection.abandon_results!
          assert_equal 4, one(connection.query("select 4"))
        end
        assert_equal 5, one(database.query("select 5"))
        database.connect { |connection| connection.query("select 1; select 2") } # its second result is unread
        assert_equal 6, one(database.query("select 6"))
      end
    end
  end

  def test_warnings_are_those_of_the_last_statement
    with_mysql(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.query("select cast('x' as signed)")
          assert_equal 1, connection.warning_count
          database.query("select 1")
          assert_match(/Truncated/, connection.query("show warnings").rows.dig(0, 2))
        end
        database.connect do |connection|
          assert_raises(Trilogy::ProtocolError) { connection.query("select * from nowhere") }
          assert_equal 1146, connection.query("show errors").rows.dig(0, 1)
        end
      end
    end
  end

  def test_found_rows
    with_mysql(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.query("select sql_calc_found_rows 1 union select 2 limit 1")
          assert_equal 2, one(connection.query("select found_rows()"))
        end
        database.connect do |connection|
          connection.query("select 1")
          assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("select found_rows()") }
        end
      end
    end
  end

  # Those take a connection that its session does nothing with, and the session finds its value on the next one.
  def test_last_insert_id_while_others_take_the_connection
    with_table do |table|
      ask("alter table #{table} auto_increment = 1000")
      with_mysql(connections: 2) do |database|
        in_loop do
          NB.concurrently(40.times.to_a, limit: 40) do |n|
            database.connect do |connection|
              connection.query("update #{table} set n = n") # on a connection in which others have left a number
              assert_equal 0, one(connection.query("select last_insert_id()"))
              connection.query("insert into #{table} (n) values (#{n})")
              id = connection.last_insert_id
              sleep 0.001 # real: others get statements to the server over the connection
              connection.query("update #{table} set n = n where id = #{id}")
              sleep 0.001 # real: others get statements to the server over the connection
              connection.query("insert into #{table} (id, n) values (#{n + 1}, 0)") # this number is not generated
              sleep 0.001 # real: others get statements to the server over the connection
              assert_equal id, one(connection.query("select last_insert_id()"))
              connection.query("insert into #{table} (n) values (last_insert_id())")
              assert_equal id, one(connection.query("select n from #{table} where id = last_insert_id()"))
              connection.query("set @id = last_insert_id()")
              assert_equal one(connection.query("select last_insert_id()")), one(connection.query("select @id"))
            end
          end
        end
        assert_operator database.stats[:opened] - database.stats[:closed], :<=, 2
      end
    end
  end

  def test_row_count_is_known_on_its_own_connection_only
    with_table do |table|
      ask("insert into #{table} (n) values (1), (2)")
      with_mysql(connections: 1) do |database|
        in_loop do
          database.connect do |connection|
            connection.query("update #{table} set n = n + 1")
            assert_equal 2, one(connection.query("select row_count()"))
            connection.query("update #{table} set n = n + 1")
            assert_equal 5, one(database.query("select 5"))
            assert_match(/row_count/i, assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("select row_count()") }.message)
          end
          assert_equal [1, 0], database.stats.values_at(:idle, :parked)
        end
      end
    end
  end

  def test_a_fiber_that_does_nothing_holds_no_connection
    with_table_in_loop(connections: 1) do |database, table|
      database.connect do |connection|
        database.connect do |other|
          10.times { |n| (n.even? ? connection : other).query("insert into #{table} (n) values (#{n})") }
          [connection, other].each { |one| one.query("begin") && one.query("commit") }
        end
      end
      assert_equal 10, one(database.query("select count(*) from #{table}"))
    end
  end

  def test_escape_is_the_driver_s
    driver = Trilogy.new(NeverBlockTest::MySQL.server.options)
    texts = ["it's", "\0\n\r\x1a\\\"'", "é\u3042", "\xff'".b, ""]
    ["", "NO_BACKSLASH_ESCAPES"].each do |mode|
      driver.query("set sql_mode = '#{mode}'")
      assert_equal texts.map { |text| driver.escape(text) },
        texts.map { |text| NeverBlock::MySQL::Escape.call(text, plain_backslashes: !mode.empty?, encoding: (driver.encoding if driver.respond_to?(:encoding))) }
    end
  ensure
    driver&.close
  end

  def test_a_closed_one
    with_mysql do |database|
      connection = database.connection
      connection.close
      assert_predicate connection, :closed?
      assert_raises(Trilogy::ConnectionClosed) { connection.query("select 1") }
      database.close
      assert_raises(NeverBlock::ClosedError) { database.query("select 1") }
    end
  end

  def test_two_fibers_at_one_virtual_connection
    with_mysql do |database|
      in_loop do
        database.connect do |connection|
          task = NB.spawn { connection.query("select sleep(0.2)") }
          NB.pass
          assert_raises(Trilogy::SynchronizationError) { connection.query("select 1") }
          task.value
        end
      end
    end
  end

  def test_a_forked_child_has_connections_of_its_own
    with_mysql(connections: 1) do |database|
      mine = one(database.query("select connection_id()"))
      reader, writer = IO.pipe
      child = fork do
        writer.write(one(database.query("select connection_id()")).to_s)
        exit!(0)
      end
      writer.close
      Process.wait(child)
      refute_equal mine.to_s, reader.read
      assert_equal mine, one(database.query("select connection_id()")), "the parent's goes on"
    end
  end

  def test_wrong_options
    {connections: 0, timeout: -1, max_waiting: "no", shareable_functions: "price", pool: 5}.each do |name, value|
      assert_match(/#{name}/, assert_raises(NeverBlock::ConfigurationError) { NeverBlock::MySQL.new({}, name => value) }.message)
    end
  end
end
