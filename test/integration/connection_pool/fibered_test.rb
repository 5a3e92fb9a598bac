# frozen_string_literal: true

# slow: it starts a server

require "test_helper"
require "support/postgres"
require "support/runs"

# The pool of 2008 on PostgreSQL, as its first program used it.
class FiberedConnectionPoolPostgresTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  POSTGRES = NeverBlockTest::PostgresServer

  def self.server = @server ||= POSTGRES.start.tap { |server| Minitest.after_run { server.stop } }

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    reason = POSTGRES.missing and skip reason
    require "neverblock-pg"
    require "pg"
    server = self.class.server
    @options = {host: server.folder, port: server.port, user: server.user, dbname: "postgres"}
  end

  def teardown
    @pool&.close
  end

  # Long queries, each followed by short ones, over twelve connections: the first benchmark of 2008.
  def test_the_founding_scene
    @pool = pool = NB::FiberedConnectionPool.new(@options, 12)
    fibers = NB::FiberPool.new(100)
    done, order = [], Hash.new { |all, key| all[key] = [] }
    in_run do
      10.times do |long|
        fibers.spawn do
          done << pool.exec("select pg_sleep(0.01), #{long} as number", true).getvalue(0, 1)
          order[long] << :long
        end
        5.times do |short|
          fibers.spawn { order[long] << pool.exec("select #{short}", true).getvalue(0, 0).to_i }
        end
      end
    end
    assert_equal [10, 60], [done.size, order.values.sum(&:size)]
    assert_equal [*0..4, :long], order[0].sort_by(&:to_s)
    assert_operator @pool.all_connections.size, :<=, 12
  end

  def test_statements_of_different_fibers_wait_at_the_same_time
    @pool = NB::FiberedConnectionPool.new(@options, 12)
    in_run do |scope|
      tasks = Array.new(12) { scope.spawn { @pool.exec("select pg_sleep(60)", true) } }
      pass_until("twelve at once") { @pool.exec("select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'").getvalue(0, 0) == "12" }
      tasks.each(&:cancel)
    end
  end

  def test_statements_of_one_fiber_run_in_order_in_a_transaction
    @pool = NB::FiberedConnectionPool.new(@options, 2)
    in_run do
      @pool.hold(true) { |connection| connection.exec("begin") }
      @pool.exec("create temp table things (id int) on commit drop", true)
      @pool.exec("insert into things values (1)", true)
      assert_equal "1", @pool.exec("select id from things").getvalue(0, 0)
      @pool.hold do |connection|
        connection.exec("rollback")
        @pool.release(Fiber.current, connection)
      end
      assert_raises(PG::UndefinedTable) { @pool.exec("select id from things", true) }
    end
  end

  def test_an_error_keeps_the_connection_unless_it_leaves_a_transaction_open
    @pool = NB::FiberedConnectionPool.new(@options, 1)
    in_run do
      first = @pool.exec("select pg_backend_pid()", true).getvalue(0, 0)
      assert_raises(PG::SyntaxError) { @pool.exec("selekt", true) }
      assert_equal first, @pool.exec("select pg_backend_pid()", true).getvalue(0, 0)
      assert_raises(PG::SyntaxError) { @pool.hold { |connection| connection.exec("begin") && connection.exec("selekt") } }
      refute_equal first, @pool.exec("select pg_backend_pid()", true).getvalue(0, 0)
    end
  end

  def test_a_cancelled_statement_ends_its_connection
    @pool = NB::FiberedConnectionPool.new(@options, 1)
    in_run do |scope|
      task = parked(scope.spawn { @pool.exec("select 1 from pg_sleep(60)", true) })
      task.cancel
      assert_equal "2", @pool.exec("select 2", true).getvalue(0, 0)
    end
  end

  def test_blocking_mode_has_a_connection_of_its_own
    @pool = NB::FiberedConnectionPool.new(@options, 1)
    pids = in_run { [@pool.exec("select pg_backend_pid()"), @pool.exec("select pg_backend_pid()", true), @pool.exec("select pg_backend_pid()")].map { |result| result.getvalue(0, 0) } }
    assert_equal [true, false], [pids[0] == pids[2], pids[0] == pids[1]]
    assert_raises(PG::ConnectionBad) { @pool.exec("select pg_terminate_backend(pg_backend_pid())") }
    refute_equal pids[0], @pool.exec("select pg_backend_pid()").getvalue(0, 0)
  end

  def test_a_forked_child_does_not_end_the_parents_connections
    output = assert_ruby(<<~RUBY, gems: true)
      require "bundler/setup"
      require "neverblock-pg"
      pool = NB::FiberedConnectionPool.new(#{@options.inspect}, 1)
      pid = -> { [pool.exec("select pg_backend_pid()", true), pool.exec("select pg_backend_pid()")].map { |result| result.getvalue(0, 0) } }
      first = pid.call
      Process.wait(fork { GC.start })
      Process.wait(fork { exit!((pid.call & first).empty?) })
      p [$?.success?, pid.call == first]
    RUBY
    assert_equal "[true, true]\n", output
  end

  # As its test/test_pg.rb had it, with select in place of an event machine.
  def test_a_programs_own_loop_drives_it
    @pool = pool = NB::Pool::FiberedConnectionPool.new(size: 3, eager: true) { PG.connect(@options) }
    finished = []
    6.times do |number|
      Fiber.new { finished << pool.exec("select pg_sleep(0.01), #{number}", true).getvalue(0, 1).to_i }.resume
    end
    failed = nil
    Fiber.new { failed = raised { pool.exec("selekt", true) } }.resume
    assert_equal 3, pool.sockets.size
    until finished.size == 6 && failed
      readable, = IO.select(pool.sockets)
      readable.each { |socket| pool.process_command(socket) }
    end
    assert_equal [[*0..5], PG::SyntaxError], [finished.sort, failed.class]
    assert_equal 3, pool.all_connections.size
  end

  def test_inside_a_loop_there_is_nothing_to_drive
    @pool = NB::FiberedConnectionPool.new(@options, 2)
    in_run do |scope|
      tasks = Array.new(4) { |number| scope.spawn { @pool.exec("select pg_sleep(0.01), #{number}", true).getvalue(0, 1) } }
      pass_until("the first connection") { @pool.sockets.any? }
      @pool.process_command(@pool.sockets.first)
      assert_equal %w[0 1 2 3], tasks.map(&:value)
    end
  end
end
