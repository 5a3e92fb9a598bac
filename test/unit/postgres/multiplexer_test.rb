# frozen_string_literal: true

require "test_helper"
require "support/fake_multiplexer"
require "support/virtual_time"

# A multiplexer's work with statements, leases and connections, without a server. The choice of a connection:
# test/unit/postgres/router_test.rb. With a server: test/integration/postgres/sharing_test.rb and
# test/integration/postgres/changed_sessions_test.rb.
class PostgresMultiplexerTest < Minitest::Test
  include NeverBlockTest::FakeMultiplexer
  include NeverBlockTest::VirtualTime

  def test_statements_share_one_connection
    in_loop do
      multiplexer = multiplexer(connections: 1)
      tasks = Array.new(5) { |n| NB.spawn { multiplexer.run(statement("select #{n}")) } }
      assert_equal ["SELECT 1"], tasks.map { |task| task.value.cmd_status }.uniq
      assert_equal 1, @factory.opened.size
      assert_equal({shared: 5, alone: 0, leased: 0}, multiplexer.tally.to_h[:statements])
      assert_equal [1, 0], multiplexer.stats.values_at(:size, :queued)
      assert_match(/\A#<NeverBlock::Postgres::Multiplexer .*displaced 0>\z/, multiplexer.inspect)
    end
  end

  def test_an_error_is_its_statement_s
    in_loop do
      multiplexer = multiplexer { |sql| (sql == "bad") ? fake.error("42601", "wrong") : fake.ok }
      bad, good = %w[bad good].map { |sql| NB.spawn { multiplexer.run(statement(sql)) } }
      assert_match(/wrong/, outcome(bad).message)
      assert_equal "SELECT 1", good.value.cmd_status
    end
  end

  def test_a_statement_moves_to_another_connection_if_its_own_is_lost_before_it_is_sent
    in_loop do
      multiplexer = multiplexer(connections: 1)
      multiplexer.run(statement("select 1"))
      first = @factory.opened.first
      first.probe_next
      pgs.first.hang_up
      assert_equal "SELECT 1", multiplexer.run(statement("select 2")).cmd_status
      assert_equal [2, :broken], [@factory.opened.size, first.state]
      assert_equal [1, 1], multiplexer.tally.to_h.then { |tally| [tally[:retries][:moved], tally[:lost]] }
    end
  end

  def test_the_outcome_of_a_statement_in_flight_is_unknown
    in_loop do
      multiplexer = multiplexer { nil }
      task = NB.spawn { multiplexer.run(statement("update t set a = 1", kind: :write)) }
      pass_until("the statement") { pgs.first&.waiting == 1 }
      pgs.first.hang_up
      assert_kind_of NeverBlock::Postgres::OutcomeUnknown, outcome(task)
    end
  end

  # Its effect is unknown, and the message says so.
  def test_a_write_that_is_cancelled_in_flight_has_a_note
    in_loop do
      multiplexer = multiplexer { |sql| fake.ok unless sql.start_with?("update") }
      multiplexer.run(statement("select 1")) # so that the connection is open
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(15) { multiplexer.run(statement("update t set a = 1", kind: :write)) } }
      assert_includes error.message, "whether it was executed is unknown"
    end
  end

  def test_a_connection_that_can_t_be_opened_fails_its_statement
    in_loop do
      multiplexer = multiplexer(connections: 1)
      @factory.failure = PG::ConnectionBad.new("refused")
      assert_equal "refused", assert_raises(PG::ConnectionBad) { multiplexer.run(statement("select 1")) }.message
      @factory.failure = nil
      assert_equal "SELECT 1", multiplexer.run(statement("select 1")).cmd_status
    end
  end

  def test_a_lease_has_its_connection_alone
    in_loop do
      multiplexer = multiplexer(connections: 1, shares: false, timeout: 15)
      lease = multiplexer.lease(defaults, purpose: "LISTEN news")
      assert_equal :leased, lease.connection.state
      error = assert_raises(NeverBlock::Postgres::PoolTimeout) { multiplexer.run(statement("select 1", alone: true)) }
      assert_match(/no connection was free within 15 s: 1 of 1 are held \(LISTEN news/, error.message)
      lease.give_back
      assert_equal "SELECT 1", multiplexer.run(statement("select 1")).cmd_status
      assert_equal 1, multiplexer.tally.to_h[:waits][:timeouts]
    end
  end

  def test_more_than_max_waiting_are_refused
    in_loop do
      multiplexer = multiplexer(connections: 1, shares: false, max_waiting: 1)
      lease = multiplexer.lease(defaults, purpose: "BEGIN")
      waiting = NB.spawn { multiplexer.run(statement("select 1", alone: true)) }
      pass_until("the wait") { multiplexer.stats[:queued] == 1 }
      assert_raises(NeverBlock::Postgres::BacklogFull) { multiplexer.run(statement("select 2", alone: true)) }
      lease.give_back
      assert_equal "SELECT 1", waiting.value.cmd_status
    end
  end

  def test_a_cancelled_waiter_leaves_the_queue
    in_loop do
      multiplexer = multiplexer(connections: 1, shares: false)
      lease = multiplexer.lease(defaults, purpose: "BEGIN")
      waiting = NB.spawn { multiplexer.lease(defaults, purpose: "another") }
      pass_until("the wait") { multiplexer.stats[:queued] == 1 }
      waiting.cancel
      pass_until("its end") { !waiting.alive? }
      assert_equal 0, multiplexer.stats[:queued]
      lease.give_back
      assert multiplexer.pool.any_idle?
    end
  end

  def test_a_dead_connection_is_not_leased
    in_loop do
      multiplexer = multiplexer(connections: 1)
      multiplexer.run(statement("select 1"))
      @factory.opened.first.probe_next
      pgs.first.hang_up
      lease = multiplexer.lease(defaults, purpose: "BEGIN")
      assert_same @factory.opened.last, lease.connection
      lease.give_back
    end
  end

  def test_a_lease_works_without_a_loop
    multiplexer = multiplexer(connections: 1)
    lease = multiplexer.lease(defaults, purpose: "a console")
    assert_equal "SELECT 1", lease.run(own = statement("select 1")).cmd_status
    assert_predicate own, :done?
    lease.give_back
  end

  def test_sessions_are_another_multiplexer_s_behind_a_pooler
    in_loop do
      pooled = multiplexer(pgbouncer: :transaction)
      assert_predicate pooled, :pooled?
      assert_nil pooled.catalogue
      assert_match(/LISTEN/, assert_raises(NeverBlock::ConfigurationError) { pooled.with_sessions("LISTEN") }.message)
      pooled.close
      sessions = multiplexer
      pooled = multiplexer(pgbouncer: :transaction, sessions:)
      assert_same sessions, pooled.with_sessions("LISTEN")
      assert_equal 0, pooled.stats[:sessions]
      pooled.close
      assert_predicate sessions, :closed?
    end
  end

  def test_names_are_unique_while_multiplexers_are_open
    first = multiplexer(name: "unit test")
    second = multiplexer(name: "unit test")
    assert_equal ["unit test", "unit test (2)"], [first.name, second.name]
    [first, second].each(&:close)
    assert_equal "unit test", multiplexer(name: "unit test").name
  end
end
