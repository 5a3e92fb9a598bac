# frozen_string_literal: true

require "test_helper"
require_relative "../../support/mysql"

# What a response, or the text of a statement, does not show at first sight: open transactions, comments, the end of a
# fiber that no `rescue` sees. No other fiber gets such a connection.
class MySQLUnseenTest < Minitest::Test
  include NeverBlockTest::MySQL

  # A read opens a transaction then, whose snapshot is the session's own.
  def test_a_session_without_autocommit
    with_table_in_loop(connections: 1) do |database, table|
      reader = without_autocommit(database)
      assert_equal 0, one(reader.query("select count(*) from #{table}"))
      reader.close
      ask("insert into #{table} (n) values (1)")
      reader = without_autocommit(database)
      assert_equal 1, one(reader.query("select count(*) from #{table}"))
    ensure
      reader&.close
    end
  end

  # COMMIT AND CHAIN opens the next one: a connection that counts as free loses what is written there.
  def test_statements_that_look_like_the_end_of_a_transaction
    with_table do |table|
      ["commit#{" " * 27}and chain", "rollback#{" " * 25}to savepoint a"].each do |statement|
        with_mysql(connections: 1) do |database|
          in_loop do
            database.connect do |connection|
              connection.query("begin")
              connection.query("savepoint a")
              connection.query(statement)
              assert_predicate connection, :in_transaction?, statement
              connection.query("insert into #{table} (n) values (1)")
              connection.query("commit")
              refute_predicate connection, :in_transaction?
            end
          end
        end
      end
      assert_equal "2", ask("select count(*) from #{table}")
    end
  end

  def test_a_lock_behind_a_comment
    with_mysql(connections: 2) do |database|
      in_loop do
        database.query("select 1 --\x7f'\n, get_lock('behind a comment', 0) -- '")
        pass_until("its release") { one(database.query("select is_free_lock('behind a comment')")) == 1 }
      end
    end
  end

  # There the byte 0xA0 is a blank, after which -- begins a comment.
  def test_a_lock_behind_a_comment_in_latin1
    with_mysql(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.configure { connection.query("SET NAMES latin1") }
          connection.query("select 1 --\xA0'\n, get_lock('in latin1', 0) -- '".b)
        end
        pass_until("its release") { one(database.query("select is_free_lock('in latin1')")) == 1 }
      end
    end
  end

  # Fiber#kill runs no `rescue`, and lets no `ensure` wait: another task tells the server.
  def test_a_killed_fiber_in_a_statement
    with_mysql(connections: 1) do |database|
      in_loop do
        mark = kill_amid_a_statement(database)
        pass_until("the statement's end") { running(mark) == "0" }
        assert_equal 7, one(database.query("select 7"))
        pass_until("the confirmation") { database.stats[:killed] == 1 }
        assert_equal [0, 0], database.stats.values_at(:unconfirmed, :busy)
      end
    end
  end

  def test_a_killed_fiber_in_a_transaction
    with_table_in_loop(connections: 1) do |database, table|
      database.connect do |connection|
        connection.query("begin")
        connection.query("insert into #{table} (n) values (1)")
        kill_amid_a_statement(connection)
        assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("commit") }
      end
      assert_equal 0, one(database.query("select count(*) from #{table}"))
    end
  end

  # mysql2 reads it in a thread, which must have ended when the client is closed.
  def test_a_killed_fiber_in_mid_response
    with_proxy(connections: 1) do |database, proxy|
      in_loop do
        database.query("select 1")
        proxy.answers(1000)
        fiber = nil
        task = NB.spawn do
          fiber = Fiber.current
          database.query("select repeat('x', 100000)")
        end
        sleep 0.1 # real: the driver reads the first bytes of the response, which can't be seen
        fiber.kill
        proxy.resume
        pass_until("the task's end") { !task.alive? }
        assert_equal 2, one(database.query("select 2"))
        pass_until("the confirmation") { database.stats[:killed] == 1 }
      end
    end
  end

  def test_a_killed_thread_in_a_statement
    with_mysql(connections: 1) do |database|
      database.query("select 1")
      mark = "killed #{rand(1 << 40)}"
      thread = Thread.new { database.query("select sleep(60) as `#{mark}`") }
      pass_until("the sleep") { running(mark) == "1" }
      thread.kill.join
      assert_equal "0", running(mark)
      assert_equal 7, one(database.query("select 7"))
      assert_equal [1, 0, 0], database.stats.values_at(:killed, :unconfirmed, :busy)
    end
  end

  private

  # Kills a fiber whose statement sleeps.
  # @return [String] for {#running}
  def kill_amid_a_statement(client)
    fiber = nil
    mark = "killed #{rand(1 << 40)}"
    task = NB.spawn do
      fiber = Fiber.current
      client.query("select sleep(60) as `#{mark}`")
    end
    pass_until("the sleep") { running(mark) == "1" }
    fiber.kill
    pass_until("the task's end") { !task.alive? }
    mark
  end

  def running(mark) = ask("select count(*) from information_schema.processlist where info like 'select sleep%#{mark}%'")

  def without_autocommit(database)
    database.connection.tap { |connection| connection.configure { connection.query("SET autocommit = 0") } }
  end
end

# The same with the gem mysql2.
class MySQL2UnseenTest < MySQLUnseenTest
  include NeverBlockTest::ByMysql2

  # Its client can't tell them from others.
  def test_a_session_without_autocommit
    {"autocommit = 0" => /autocommit is 0.*trilogy/, "completion_type = CHAIN" => /completion_type is CHAIN.*trilogy/}.each do |setting, message|
      with_mysql do |database|
        connection = database.connection
        connection.configure { connection.query("SET #{setting}") }
        assert_match message, in_loop { assert_raises(NeverBlock::ConfigurationError) { connection.query("select 1") } }.message
        assert_equal [0, 0], database.stats.values_at(:connections, :busy)
      end
    end
  end
end
