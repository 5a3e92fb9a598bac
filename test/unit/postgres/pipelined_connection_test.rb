# frozen_string_literal: true

require "test_helper"
require "support/fake_connections"

# Operations of fibers on one connection. With a server: test/integration/postgres/pipeline_test.rb.
class PostgresPipelinedConnectionTest < Minitest::Test
  include NeverBlockTest::FakeConnections

  def test_statements_of_one_turn_are_sent_together_and_answered_in_order
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      tasks = Array.new(3) { |n| NB.spawn { execute(one, "select #{n}", flush_now: false) } }
      pass_until("the statements") { pg.waiting == 3 }
      assert_equal ["select 0", "select 1", "select 2"], pg.sent
      assert_equal [3, false, true], [one.depth, one.idle?, one.crowded?]
      3.times { |n| pg.answer(NeverBlockTest::FakePg.ok("SELECT #{n}")) }
      assert_equal ["SELECT 0", "SELECT 1", "SELECT 2"], tasks.map { |task| task.value.cmd_status }
      assert_predicate one, :idle?
    end
  end

  def test_an_error_stays_with_its_statement
    in_loop do
      one = connection { |sql| (sql == "bad") ? NeverBlockTest::FakePg.error("42601") : NeverBlockTest::FakePg.ok }
      outcomes = %w[good bad fine].map { |sql| NB.spawn { execute(one, sql) } }.map { |task| outcome(task) }
      assert_equal [NeverBlockTest::FakePg::Result, PG::ServerError, NeverBlockTest::FakePg::Result], outcomes.map(&:class)
      assert_equal :shared, one.state
    end
  end

  def test_the_reader_hands_the_reading_on
    in_loop do
      pg, first, second = two_that_wait
      pg.answer
      first.value
      assert_predicate second, :alive?
      pg.answer
      second.value
    end
  end

  def test_a_cancelled_reader_hands_the_reading_on
    in_loop do
      pg, reader, other = two_that_wait
      reader.cancel
      pass_until("its end") { !reader.alive? }
      2.times { pg.answer }
      assert_equal "SELECT 1", other.value.cmd_status
    end
  end

  def test_a_withdrawn_statement_is_not_sent
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      one.push(unsent = statement("select 1"))
      assert_equal [true, false], [one.withdraw(unsent), one.withdraw(unsent)]
      one.flush
      assert_empty pg.sent
    end
  end

  def test_a_lost_connection_fails_what_was_sent_and_moves_the_rest
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      task = NB.spawn { execute(one, "update t set a = 1") }
      pass_until("the statement") { pg.waiting == 1 }
      one.push(unsent = statement("select 2"))
      pg.hang_up
      error = outcome(task)
      assert_kind_of NeverBlock::Postgres::OutcomeUnknown, error
      assert_equal [[:lost, "select 2"]], @owner.log
      assert_nil unsent.connection
      assert_equal [:broken, true, PG::PQTRANS_UNKNOWN], [one.state, one.ended_by_server, one.transaction_status]
      refute_predicate one, :alive?
      assert_predicate pg, :finished?
    end
  end

  def test_an_interrupt_while_results_are_booked_ends_the_connection
    in_loop do
      @owner.define_singleton_method(:finished) { |*| raise IndexError, "interrupted" }
      one = connection(NeverBlockTest::FakePg.new { NeverBlockTest::FakePg.ok })
      assert_raises(IndexError) { execute(one, "select 1") }
      assert_equal :broken, one.state
      assert_match(/interrupted/, one.broken.message)
      assert_nil one.ended_by_server || nil
    end
  end

  def test_a_dead_connection_is_noticed_before_the_next_statement
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      assert one.alive?, "it is probed after a second without a statement"
      one.probe_next
      pg.hang_up
      refute_predicate one, :alive?
      assert_equal [[:lost]], @owner.log
      assert_nil one.ended_by_server || nil, "no statement was in flight"
    end
  end

  def test_a_statement_of_a_lost_connection_fails_at_once
    in_loop do
      one = connection
      one.push(late = statement("select 1"))
      one.withdraw(late)
      one.break_off(PG::ConnectionBad.new("gone"))
      one.complete(late)
      assert_match(/gone/, assert_raises(NeverBlock::Postgres::OutcomeUnknown) { late.value }.message)
    end
  end

  def test_closing_twice_is_harmless
    in_loop do
      one = connection
      2.times { one.close }
      assert_match(/was closed/, one.broken.message)
      one.break_off(PG::ConnectionBad.new("again"))
      assert_empty @owner.log
    end
  end

  def test_a_statement_alone_goes_without_the_pipeline
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new { NeverBlockTest::FakePg.ok("SELECT 7") })
      alone = statement("select 7", alone: true)
      one.holder = alone
      assert_equal :alone, one.state
      one.push(alone)
      one.complete(alone)
      assert_equal "SELECT 7", alone.value.cmd_status
      assert_equal [[:exchanged, "select 7"]], @owner.log
      assert_equal PG::PQ_PIPELINE_OFF, pg.pipeline_status
    end
  end

  def test_a_statement_for_another_cluster_is_refused
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new { NeverBlockTest::FakePg.ok })
      one.cluster = 2
      assert_raises(NeverBlock::Postgres::OtherCluster) { execute(one, "select 1", cluster: 1) }
      assert_empty pg.sent
    end
  end

  def test_a_doubtful_statement_makes_its_connection_suspect
    in_loop do
      one = connection { NeverBlockTest::FakePg.ok }
      execute(one, "select f()", doubt: "f() is not known")
      assert_equal ["select f()", false], [one.suspect, one.stale]
      execute(one, "select g()", doubt: "it may call setseed")
      assert_equal ["select f()", true], [one.suspect, one.stale]
    end
  end

  def test_giving_up_cancels_until_all_has_ended
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      2.times { |n| one.push(statement("select #{n}").tap(&:abandon)) }
      one.flush
      assert_predicate one, :deserted?
      one.give_up
      assert_equal 2, pg.sent.count("cancel")
      assert_predicate one, :idle?
    end
  end

  def test_its_states
    in_loop do
      one = connection
      lease = NeverBlock::Postgres::CheckoutRequest.new(defaults, "BEGIN")
      {nil => :shared, lease => :leased, NeverBlock::Postgres::Holder::UPKEEP => :upkeep, statement("select 1") => :alone}.each do |holder, state|
        one.holder = holder
        assert_equal state, one.state
      end
      assert_match(/PipelinedConnection alone, 0 statements/, one.inspect)
    end
  end

  def test_a_lease_rests_in_a_transaction_without_statements
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      pg.transaction_status = PG::PQTRANS_INTRANS
      refute one.rests?(0), "no lease holds it"
      one.holder = NeverBlock::Postgres::CheckoutRequest.new(defaults, "BEGIN")
      assert one.rests?(0)
      refute one.rests?(now + 60)
      pg.transaction_status = PG::PQTRANS_IDLE
      refute one.rests?(0)
    end
  end

  def test_a_changed_setting_and_a_promotion_are_seen
    in_loop do
      server = Struct.new(:standby).new(true)
      one = connection(pg = NeverBlockTest::FakePg.new, server:)
      pg.parameters["in_hot_standby"] = "on"
      assert_equal [nil, false], [one.reported.leak, one.promoted?]
      pg.parameters["TimeZone"] = "Asia/Tokyo"
      pg.parameters["in_hot_standby"] = "off"
      assert_equal ['TimeZone was "UTC" and is "Asia/Tokyo"', true], [one.reported.leak, one.promoted?]
    end
  end

  # pg's calls go on with libpq's memory after a wait.
  def test_a_connection_is_closed_by_the_last_fiber_that_leaves_libpq
    in_loop do
      one = connection
      read = read("select 1")
      task = NB.spawn { one.ask(read, true, now) }
      pass_until("the statement") { one.pg.waiting == 1 }
      one.break_off(NeverBlock::ClosedError.new("enough"))
      refute_predicate one.pg, :finished?
      task.join
      assert_predicate one.pg, :finished?
      assert_raises(NeverBlock::Postgres::OutcomeUnknown) { read.statement.value }
    end
  end

  # At the end of a statement its connection may be another's at once: its reader stays, and its read.
  def test_a_statement_that_ends_takes_away_no_other_reader
    in_loop do
      others = []
      use = ->(one, sql) { others << NB.spawn { execute(one, sql) } && 3.times { NB.pass } }
      one = failing { |connection| use.call(connection, "first") }
      use.call(one, "second")
      assert_equal [true, false], others.map { |task| task.waits_for.end_with?("to be readable") }, "one of them reads"
      2.times { one.pg.answer }
      assert_equal ["SELECT 1"] * 2, others.map { |task| task.value.cmd_status }
    end
  end

  def test_a_statement_that_ends_takes_away_no_other_read
    in_loop do
      other = nil
      one = failing do |connection|
        other = NB.spawn { connection.ask(read("other"), true, now) }
        3.times { NB.pass }
      end
      assert_equal [1, false], [one.depth, one.idle?]
      one.pg.answer
      assert_equal "SELECT 1", other.value.cmd_status
    end
  end

  # COPY and wait_for_notify wait for the socket: what a probe has read into libpq would not wake them.
  def test_a_connection_in_which_a_fiber_waits_is_not_probed
    in_loop do
      one = connection(pg = NeverBlockTest::FakePg.new)
      waiting = NB.spawn { one.inside_libpq { one.plain.tap { |plain| plain.send_query_params("select 1") }.async_get_last_result } }
      pass_until("the statement") { pg.waiting == 1 }
      pg.answer
      assert one.alive?(look: true)
      assert_equal "SELECT 1", waiting.value.cmd_status
    end
  end

  def test_nested_calls_of_libpq
    one = connection
    one.inside_libpq do
      one.inside_libpq { one.close }
      refute_predicate one.pg, :finished?
    end
    assert_predicate one.pg, :finished?
  end

  private

  # @return [Array(FakePg, Task, Task)] the first task reads for both
  def two_that_wait
    one = connection(pg = NeverBlockTest::FakePg.new)
    tasks = Array.new(2) { |n| NB.spawn { execute(one, "select #{n}") } }
    pass_until("both") { pg.waiting == 2 }
    [pg, *tasks]
  end

  def read(sql) = NeverBlock::Postgres::Read.new(sql, [], 0, nil, -"select ?", defaults, nil, 0.0, nil, nil)

  # A connection on which a read has just failed.
  # @yieldparam connection [NeverBlock::Postgres::PipelinedConnection] at the end of the read
  def failing(&ended)
    one = connection { |sql| NeverBlockTest::FakePg.error("42601", "wrong") if sql == "bad" }
    @owner.define_singleton_method(:exchanged) { |connection, statement| super(connection, statement).tap { ended.call(connection) } }
    bad = read("bad")
    assert_nil one.ask(bad, true, now)
    assert_raises(PG::Error) { bad.statement.value }
    one
  end

  def execute(connection, sql, flush_now: true, **)
    one = statement(sql, **)
    connection.push(one)
    connection.complete(one, flush_now:)
    one.value
  ensure
    one.abandon unless one.done?
  end
end
