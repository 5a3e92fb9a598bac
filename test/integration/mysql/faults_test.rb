# frozen_string_literal: true

require "test_helper"
require_relative "../../support/mysql"
require_relative "../../support/delay_proxy"

# What is given up ends on the server, what is lost is never sent again, and no connection in mid-response serves others.
class MySQLFaultsTest < Minitest::Test
  include NeverBlockTest::MySQL

  def test_a_statement_that_timed_out_has_ended_before_its_fiber_goes_on
    with_mysql(connections: 2) do |database|
      in_loop do
        database.query("select 1")
        mark = "given up #{rand(1 << 40)}"
        assert_raises(NB::TimeoutError) { NB.timeout(0.05) { database.query("select sleep(60) as `#{mark}`") } }
        assert_equal "0", ask("select count(*) from information_schema.processlist where info like 'select sleep%#{mark}%'")
        assert_equal 1, database.stats[:killed]
        assert_equal 2, one(database.query("select 2"))
      end
    end
  end

  def test_a_write_that_was_given_up_takes_no_effect_later
    with_table do |table|
      ask("insert into #{table} (n) values (0)")
      with_mysql(connections: 1) do |database|
        in_loop do
          assert_raises(NB::TimeoutError) do
            NB.timeout(0.05) { database.query("update #{table} set n = n + 1 where sleep(0.3) = 0") }
          end
          before = one(database.query("select n from #{table}"))
          pass_until("the end of the statement") { ask("select count(*) from information_schema.processlist where info like 'update #{table} %'") == "0" }
          assert_equal before, one(database.query("select n from #{table}"))
        end
      end
    end
  end

  # Its locks are free when the fiber goes on.
  def test_a_transaction_whose_task_is_cancelled
    with_table do |table|
      ask("insert into #{table} (n) values (0)")
      with_mysql(connections: 2) do |database|
        in_loop do
          task = NB.spawn do
            database.transaction do |connection|
              connection.query("update #{table} set n = 1")
              connection.query("select sleep(60)")
            end
          end
          pass_until("the sleep") { ask("select count(*) from information_schema.processlist where info = 'select sleep(60)'") == "1" }
          task.cancel
          outcome(task)
          database.transaction do |connection|
            connection.query("set innodb_lock_wait_timeout = 1")
            connection.query("update #{table} set n = n + 2")
          end
          assert_equal 2, one(database.query("select n from #{table}"))
        end
      end
    end
  end

  def test_a_transaction_that_lost_a_statement_goes_no_further
    with_table_in_loop(connections: 1) do |database, table|
      database.connect do |connection|
        connection.query("begin")
        connection.query("insert into #{table} (n) values (1)")
        assert_raises(NB::TimeoutError) { NB.timeout(0.05) { connection.query("select sleep(60)") } }
        2.times { assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("insert into #{table} (n) values (2)") } }
        assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("commit") }
      end
      assert_equal 0, one(database.query("select count(*) from #{table}"))
    end
  end

  def test_a_killed_connection
    with_mysql(connections: 1) do |database|
      in_loop do
        id = one(database.query("select connection_id()"))
        task = NB.spawn { database.query("select sleep(60)") }
        pass_until("the sleep") { ask("select count(*) from information_schema.processlist where info = 'select sleep(60)' and id = #{id}") == "1" }
        ask("kill #{id}")
        assert_kind_of Trilogy::Error, outcome(task)
        refute_equal id, one(database.query("select connection_id()"))
      end
    end
  end

  # Idle ones are looked at before a statement is sent.
  def test_idle_connections_that_were_killed
    with_table_in_loop(connections: 3) do |database, table|
      ids = 3.times.map { NB.spawn { one(database.query("select connection_id() from (select sleep(0.1)) a")) } }.map(&:value).uniq
      ids.each { |id| ask("kill #{id}") }
      pass_until("their end") { ask("select count(*) from information_schema.processlist where id in (#{ids.join(",")})") == "0" }
      10.times { |n| database.query("insert into #{table} (n) values (#{n})") }
      assert_equal 10, one(database.query("select count(*) from #{table}"))
    end
  end

  def test_a_lost_commit
    with_table do |table|
      with_proxy(connections: 1) do |database, proxy|
        in_loop do
          error = assert_raises(NeverBlock::MySQL::OutcomeUnknown) do
            database.transaction do |connection|
              connection.query("insert into #{table} (n) values (1)")
              proxy.silence
              NB.spawn { sleep(0.1) && proxy.cut } # real: the commit is on its way to the proxy, which reads nothing
            end
          end
          assert_kind_of NeverBlock::Error, error
          assert_match(/unknown/, error.message)
          proxy.resume
          assert_equal 1, one(database.query("select 1"))
        end
      end
    end
  end

  # Each caller waits for its own limit, and the others for nothing.
  def test_a_network_that_falls_silent
    with_proxy(connections: 2) do |database, proxy|
      in_loop do
        database.query("select 1")
        proxy.silence
        started = now
        tasks = 2.times.map { NB.spawn { NB.timeout(0.2) { database.query("select 2") } } }
        tasks.each { |task| assert_kind_of NB::TimeoutError, outcome(task) }
        assert_operator now - started, :<, 10
        proxy.resume
        assert_equal 3, one(database.query("select 3"))
      end
    end
  end

  # It holds for the responses of the server's greeting too, which a busy machine does not send at once.
  slow "it waits for timeouts"
  def test_a_read_timeout_of_the_driver
    with_table do |table|
      with_mysql(connections: 1, target: NeverBlockTest::MySQL.server.options(read_timeout: 1)) do |database|
        in_loop do
          assert_raises(Trilogy::TimeoutError) { database.query("select sleep(60)") }
          assert_raises(NeverBlock::MySQL::OutcomeUnknown) { database.query("insert into #{table} (n) select sleep(60)") }
          assert_equal 0, one(database.query("select count(*) from #{table}"))
        end
        assert_equal 2, database.stats[:killed]
      end
    end
  end

  # The first bytes are there, so that the driver reads, which mysql2 does in C.
  def test_a_read_timeout_in_mid_response
    with_table do |table|
      ask("insert into #{table} (n) values (0)")
      with_proxy(connections: 2, read_timeout: 1) do |database, proxy|
        in_loop do
          database.connect do |connection|
            connection.query("begin")
            id = one(connection.query("select connection_id()"))
            proxy.answers(1000)
            task = NB.spawn { connection.query("select n, repeat('x', 100000) from #{table} for update") }
            turns = 0
            pass_until("silence") { (turns += 1) > 10 }
            assert_predicate task, :alive?, "others go on"
            NB.spawn { sleep(1.2) && proxy.resume } # real: the driver's limit of a second, which mysql2 counts in C
            assert_kind_of Trilogy::TimeoutError, outcome(task)
            assert_equal "0", ask("select count(*) from information_schema.processlist where id = #{id}")
            assert_raises(NeverBlock::MySQL::SessionLost) { connection.query("commit") }
          end
          assert_equal [1, 0], database.stats.values_at(:killed, :unconfirmed)
          database.query("update #{table} set n = n + 1")
          assert_equal 1, one(database.query("select n from #{table}"))
        end
      end
    end
  end

  # A connection in mid-response is cancelled: no other fiber gets the rest.
  def test_a_cancelled_task_in_mid_response
    with_proxy(connections: 1) do |database, proxy|
      in_loop do
        database.query("select 1")
        proxy.answers(1000)
        task = NB.spawn { database.query("select repeat('x', 100000)") }
        sleep 0.1 # real: the driver reads the first bytes of the response, which can't be seen
        task.cancel
        proxy.resume
        assert_kind_of NeverBlock::Cancelled, outcome(task)
        assert_equal 2, one(database.query("select 2"))
        assert_equal 0, database.stats[:unconfirmed]
      end
    end
  end

  def test_connections_that_are_killed_under_load
    with_table("nonce int") do |table|
      with_mysql(connections: 4, timeout: 60) do |database|
        in_loop do
          known = {}
          done = false
          killer = NB.spawn do
            kill_one until done
          end
          NB.concurrently(1..400, limit: 20) do |n|
            assert_equal n, one(database.query("select #{n} from (select sleep(0.001)) a"))
            database.query("insert into #{table} values (#{n})")
            known[n] = 1
          rescue NeverBlock::MySQL::OutcomeUnknown
            known[n] = ask("select count(*) from #{table} where nonce = #{n}").to_i
          rescue Trilogy::Error, refusal
            known[n] = 0
          end
          done = true
          killer.value
          rows = ask("select nonce from #{table}").split.map(&:to_i).tally
          assert_equal known.reject { |_n, times| times == 0 }, rows
          assert_equal 400, known.size
          assert_equal [0, 0], database.stats.values_at(:busy, :unconfirmed)
        end
      end
    end
  end

  def test_a_deadlock_and_a_lock_wait_timeout
    with_table do |table|
      ask("insert into #{table} (n) values (0), (0)")
      with_mysql(connections: 2) do |database|
        in_loop do
          ready = Thread::Queue.new
          errors = [[1, 2], [2, 1]].map do |first, second|
            NB.spawn do
              database.transaction do |connection|
                connection.query("update #{table} set n = n + 1 where id = #{first}")
                ready << true
                pass_until("both") { ready.size == 2 }
                connection.query("update #{table} set n = n + 1 where id = #{second}")
              end
            end
          end.map { |task| outcome(task) }.grep(Exception)
          assert_equal [1213], errors.map(&:error_code)
          assert_equal [1, 1], database.query("select n from #{table} order by id").rows.flatten
          assert_equal 2, database.stats[:connections], "both are in use again"
          waits(database, table)
        end
      end
    end
  end

  # Its name leads to the new primary then.
  def test_a_server_that_has_become_read_only
    administrator = Trilogy.new(socket: NeverBlockTest::MySQL.server.socket, username: "root")
    administrator.query("create or replace user plain@'%'")
    administrator.query("grant insert, select on nb.* to plain@'%'")
    with_table do |table|
      with_mysql(connections: 2, target: NeverBlockTest::MySQL.server.options(username: "plain")) do |database|
        in_loop do
          before = 2.times.map { NB.spawn { one(database.query("select connection_id() from (select sleep(0.05)) a")) } }.map(&:value)
          ask("set global read_only = 1")
          assert_equal 1290, assert_raises(Trilogy::Error) { database.query("insert into #{table} (n) values (1)") }.error_code
          ask("set global read_only = 0")
          2.times { database.query("insert into #{table} (n) values (1)") }
          refute_includes before, one(database.query("select connection_id()"))
          assert_equal 2, one(database.query("select count(*) from #{table}"))
        end
      end
    end
  ensure
    administrator.query("set global read_only = 0")
    administrator.query("drop user plain@'%'")
    administrator.close
  end

  def test_too_many_connections
    NeverBlockTest::MySQLServer.open(max_connections: 3) do |server|
      with_mysql(connections: 20, server:) do |database|
        in_loop do
          outcomes = NB.concurrently(20.times.to_a, limit: 20) do |n|
            one(database.query("select #{n} from (select sleep(0.05)) a"))
          rescue Trilogy::Error, refusal => error
            code(error)
          end
          assert_operator outcomes.count { |n| n < 20 }, :>=, 1
          assert_empty outcomes.reject { |n| n < 20 || n == 1040 }
          assert_raises(NB::TimeoutError) { NB.timeout(0.05) { database.query("select sleep(60)") } }
          assert_equal 7, one(database.query("select 7"))
          assert_equal 0, database.stats[:unconfirmed]
        end
      end
    end
  end

  slow "it restarts a server"
  def test_a_restart
    NeverBlockTest::MySQLServer.open do |server|
      with_mysql(connections: 2, server:) do |database|
        in_loop do
          database.query("create table t (n int)")
          %i[TERM KILL].each do |signal|
            task = NB.spawn { database.query("select sleep(60)") }
            pass_until("the sleep") { server.query("select count(*) from information_schema.processlist where info = 'select sleep(60)'") == "1" }
            NB.offload { server.restart(signal) }
            assert_kind_of Trilogy::Error, outcome(task)
            database.query("insert into t values (1)")
          end
          assert_equal 2, one(database.query("select count(*) from t"))
        end
      end
    end
  end

  def test_a_wait_for_a_connection_has_a_limit_and_names_the_uses
    with_mysql(connections: 1, timeout: 0.05, max_waiting: 1) do |database|
      in_loop do
        database.connect do |connection|
          connection.query("begin")
          assert_match(/used for a transaction.*connections:/, assert_raises(NeverBlock::MySQL::PoolTimeout) { database.query("select 1") }.message)
          task = NB.spawn { database.query("select 1") }
          NB.pass
          assert_raises(NeverBlock::MySQL::BacklogFull) { database.query("select 1") }
          assert_kind_of NeverBlock::MySQL::PoolTimeout, outcome(task)
        end
        assert_equal 1, one(database.query("select 1"))
      end
    end
  end

  def test_an_interrupted_wait_loses_no_connection
    with_mysql(connections: 1) do |database|
      in_loop do
        holder = NB.spawn { database.query("select sleep(0.2)") }
        waiting = 3.times.map { NB.spawn { database.query("select 1") } }
        waiting[0].cancel
        holder.value
        waiting[2].cancel
        assert_equal 1, one(outcome(waiting[1]))
        assert_equal 2, one(database.query("select 2"))
        assert_equal [1, 1, 0], database.stats.values_at(:connections, :idle, :waiting)
      end
    end
  end

  private

  def kill_one
    sleep 0.01 # real: the server works between two kills
    victim = ask("select id from information_schema.processlist where user = 'nb' and id <> connection_id() order by rand() limit 1")
    ask("kill #{victim}") unless victim.empty?
  rescue RuntimeError => error
    raise unless error.message.include?("1094") # it has just ended
  end

  # The transaction goes on after it.
  def waits(database, table)
    database.transaction do |holder|
      holder.query("update #{table} set n = 5 where id = 1")
      database.transaction do |waiter|
        waiter.query("set innodb_lock_wait_timeout = 1")
        waiter.query("update #{table} set n = 6 where id = 2")
        assert_equal 1205, assert_raises(Trilogy::TimeoutError) { waiter.query("update #{table} set n = 7 where id = 1") }.error_code
        assert_predicate waiter, :in_transaction?
      end
    end
    assert_equal [5, 6], database.query("select n from #{table} order by id").rows.flatten
  end
end

# The same with the gem mysql2.
class MySQL2FaultsTest < MySQLFaultsTest
  include NeverBlockTest::ByMysql2
end
