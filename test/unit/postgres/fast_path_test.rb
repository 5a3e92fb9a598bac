# frozen_string_literal: true

require "test_helper"
require "support/fake_multiplexer"

# The way of a read by itself on a lent connection, and what becomes of it when anything is unusual.
class PostgresFastPathTest < Minitest::Test
  include NeverBlockTest::FakeMultiplexer

  SHAPE = -"select ?"
  Known = Struct.new(:fingerprint)

  def test_a_known_fast_read_runs_at_once
    in_loop do
      refute multiplexer.at_once?(Known.new(SHAPE)), "no connection is open"
      @multiplexer.run(statement("select 1", fingerprint: SHAPE))
      @multiplexer.catalogue.stub(:harmless?, true) { assert @multiplexer.at_once?(Known.new(SHAPE)) }
      refute @multiplexer.at_once?(Known.new(SHAPE)), "the catalogue was not read"
      assert_equal "SELECT 1", run_at_once.cmd_status
      assert_equal 2, @multiplexer.tally.to_h[:statements][:shared]
      assert_at_rest
    end
  end

  # Such as Thread#raise, which arrives where a method ends.
  def test_an_exception_after_a_connection_was_lent
    in_loop do
      opened
      @multiplexer.pool.define_singleton_method(:lend) { |read, time| super(read, time) && raise(IOError, "outside") }
      assert_raises(IOError) { run_at_once }
      @multiplexer.pool.singleton_class.remove_method(:lend)
      assert_at_rest
      assert_equal "SELECT 1", run_at_once.cmd_status
    end
  end

  # Whether the session is unchanged is not known then.
  def test_an_exception_after_the_result_has_come
    in_loop do
      opened
      one = @factory.opened.first
      one.define_singleton_method(:usual?) { |_result| raise "outside" }
      assert_raises(RuntimeError) { run_at_once }
      assert one.broken
      assert_empty @multiplexer.pool.connections
      assert_equal "SELECT 1", @multiplexer.run(statement("select 1")).cmd_status
    end
  end

  def test_while_each_statement_is_audited_nothing_runs_at_once
    in_loop do
      multiplexer(audit: true)
      @multiplexer.stub(:fast_path, -> { flunk }) { refute @multiplexer.at_once?(Known.new(SHAPE)) }
    end
  end

  # The last connection is kept for sharing.
  def test_without_an_idle_connection_to_lend_it_is_not_sent
    in_loop do
      multiplexer(connections: 1)
      2.times do
        assert_nil run_at_once
        @multiplexer.run(statement("select 1"))
      end
    end
  end

  # Its Parse needs the pipeline.
  def test_a_named_statement_runs_at_once_when_its_name_is_known
    in_loop do
      opened
      assert_nil run_at_once(key: "key")
      assert_at_rest
      @multiplexer.run(statement("select $1", 1, key: "key"))
      assert_equal "SELECT 1", run_at_once(key: "key").cmd_status
      assert_equal %w[select prepare execute execute], pgs.first.sent.map { |sql| sql[/\w+/] }
    end
  end

  def test_an_error_of_the_server
    in_loop do
      opened { |sql| (sql == "bad") ? fake.error("42601", "wrong") : fake.ok }
      assert_equal "wrong", assert_raises(PG::ServerError) { run_at_once("bad") }.message
      assert_at_rest
    end
  end

  def test_a_name_that_the_server_has_lost
    in_loop do
      lost = false
      opened { |sql| (sql.start_with?("execute") && lost) ? (lost = false) || fake.error("26000") : fake.ok }
      @multiplexer.run(statement("select $1", 1, key: "key"))
      lost = true
      assert_equal "SELECT 1", run_at_once("select $1", 1, key: "key").cmd_status
      assert_equal 1, @multiplexer.tally.to_h[:retries][:renamed]
      assert_at_rest
    end
  end

  # Relief and Overtime look at the statement that runs.
  def test_while_it_runs_the_connection_shows_a_statement
    in_loop do
      one, task = in_flight
      assert_equal [1, false, false], [one.depth, one.idle?, one.deserted?]
      assert_equal ["select 2", SHAPE, false], [one.head.sql, one.head.fingerprint, one.head.done?]
      assert_equal [one.head, 1], [one.head, one.depth]
      pgs.first.answer
      assert_equal "SELECT 1", task.value.cmd_status
      assert_at_rest
    end
  end

  # A probe would read the answer into libpq, and the fiber would wait for the socket.
  def test_the_connection_is_not_probed_meanwhile
    in_loop do
      one, task = in_flight
      pgs.first.answer
      assert one.alive?(look: true)
      @multiplexer.verify
      assert_equal "SELECT 1", task.value.cmd_status
    end
  end

  def test_a_fiber_that_stops_waiting
    in_loop do
      one, task = in_flight
      task.cancel
      pass_until("its end") { !task.alive? }
      assert_nil one.broken
      pass_until("the answers") do
        pgs.first.answer while pgs.first.waiting > 0
        one.idle? && one.holder.nil?
      end
      assert_includes pgs.first.sent, "cancel"
      assert_at_rest
    end
  end

  def test_a_connection_that_is_lost
    in_loop do
      one, task = in_flight
      pgs.first.hang_up
      assert_raises(NeverBlock::Postgres::OutcomeUnknown) { task.value }
      assert_equal [:broken, true], [one.state, one.ended_by_server]
      assert_empty @multiplexer.pool.connections
    end
  end

  def test_a_pool_that_is_closed
    in_loop do
      _, task = in_flight
      @multiplexer.close
      assert_raises(NeverBlock::Postgres::OutcomeUnknown) { task.value }
      pass_until("the end of the connection") { pgs.first.finished? }
    end
  end

  def test_a_parameter_that_can_not_be_encoded
    in_loop do
      opened
      pgs.first.define_singleton_method(:send_query_params) { |*| raise TypeError, "no" }
      assert_equal "no", assert_raises(TypeError) { run_at_once }.message
      assert_at_rest
    end
  end

  def test_a_changed_setting_is_asked_about_before_the_result_is_delivered
    in_loop do
      opened { |sql| fake.ok.tap { pgs.first.parameters["TimeZone"] = "Asia/Tokyo" if sql == "leak" } }
      run_at_once("leak") # the answer to the question is a row: a session has set it
      assert_predicate @factory.opened.first, :broken
      assert_match(/TimeZone/, @log.join)
    end
  end

  def test_a_command_tag_of_no_read
    in_loop do
      opened { |sql| fake.ok((sql == "begin") ? "BEGIN" : "SELECT 1") }
      run_at_once("begin")
      assert_match(/answered BEGIN/, @log.join)
      assert_predicate @factory.opened.first, :broken
    end
  end

  private

  # Has one connection open, which is idle.
  def opened(**, &)
    multiplexer(connections: 2, **, &)
    @multiplexer.run(statement("select 1", fingerprint: SHAPE))
  end

  # The same; later statements get no answer by themselves.
  def silent
    opened { |sql| fake.ok if sql == "select 1" }
    @factory.opened.first
  end

  # @return [Array(PipelinedConnection, Task)] a connection, and the task that waits for its answer to a read
  def in_flight
    one = silent
    task = NB.spawn { run_at_once("select 2") }
    pass_until("the read") { pgs.first.waiting == 1 }
    [one, task]
  end

  def run_at_once(sql = "select 1", *params, key: nil)
    @multiplexer.fast_path.run(
      NeverBlock::Postgres::Read.new(sql, params, 0, nil, SHAPE, defaults, key, 0.0, nil, nil)
    )
  end

  def assert_at_rest
    assert(@multiplexer.pool.connections.none?(&:lent))
    assert_equal @multiplexer.pool.connections, @multiplexer.pool.connections.select { |one| @multiplexer.pool.router.idle?(one) }
    refute_empty @multiplexer.pool.connections
  end
end
