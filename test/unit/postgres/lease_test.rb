# frozen_string_literal: true

require "test_helper"
require "support/fake_connections"

# How a lease uses its connection, and what it reports when the connection is returned. With a server:
# test/integration/postgres/leases_test.rb.
class PostgresLeaseTest < Minitest::Test
  include NeverBlockTest::FakeConnections

  # A stand-in for a multiplexer: records how leases are returned.
  class Owner < NeverBlockTest::FakeConnections::Owner
    attr_accessor :overtime, :pooled
    attr_reader :tally

    def initialize
      super
      @tally = NeverBlock::Postgres::Tally.new
    end

    def pooled? = pooled || false

    def give_back(_connection, **left) = @log << [:give_back, left]

    def retire(_connection, busy:) = @log << [:retire, busy]
  end

  def setup
    super
    @owner = Owner.new
  end

  def test_a_clean_lease_is_given_back_clean
    in_loop do
      with_lease { |lease| execute(lease, "select 1") }
      assert_equal [:give_back, {clean: true, discard: false, settings: []}], @owner.log.last
    end
  end

  def test_it_is_given_back_once
    in_loop do
      lease = with_lease
      lease.give_back
      assert_equal 1, @owner.log.count { |what, *| what == :give_back }
      error = assert_raises(NeverBlock::ClosedError) { execute(lease, "select 1") }
      assert_match(/this lease has ended/, error.message)
    end
  end

  def test_changed_settings_are_named
    in_loop do
      with_lease do |lease|
        lease.leave_state("SET work_mem TO '1MB'", ["work_mem"])
        lease.leave_state("SET jit TO off; SET work_mem TO '2MB'", %w[jit work_mem])
        refute_predicate lease, :discards?
        assert_equal "SET work_mem", lease.state
        assert_match(/ with SET work_mem>\z/, lease.inspect)
      end
      assert_equal [:give_back, {clean: false, discard: true, settings: %w[work_mem jit]}], @owner.log.last
    end
  end

  def test_other_session_state_needs_discard_all
    in_loop do
      with_lease do |lease|
        lease.leave_state("SET work_mem TO '1MB'", ["work_mem"])
        lease.leave_state("LISTEN news")
        assert_predicate lease, :discards?
      end
      assert_equal [:give_back, {clean: false, discard: true, settings: nil}], @owner.log.last
    end
  end

  def test_state_that_discard_all_leaves_ends_the_connection
    in_loop do
      ["select setseed(0.5)", "set seed to 0.5", "select dblink_connect('x')", "select set_config($1, $2, false)", "select setseed(\xFF)"].each do |sql|
        with_lease { |lease| lease.leave_state(sql) }
        assert_equal [:retire, false], @owner.log.last, sql
      end
      with_lease { |lease| lease.leave_state("select set_config('work_mem', $1, false)", ["work_mem"]) }
      assert_equal :give_back, @owner.log.last.first
    end
  end

  def test_a_real_connection_in_hands_ends_it
    in_loop do
      with_lease { |lease, _| lease.taint }
      assert_equal [:retire, false], @owner.log.last
    end
  end

  def test_an_open_transaction_is_not_clean
    in_loop do
      with_lease { |_, pg| pg.transaction_status = PG::PQTRANS_INTRANS }
      assert_equal [:give_back, {clean: false, discard: false, settings: nil}], @owner.log.last
    end
  end

  def test_a_changed_reported_setting_is_not_clean
    in_loop do
      with_lease { |_, pg| pg.parameters["TimeZone"] = "Asia/Tokyo" }
      assert_equal [:give_back, {clean: false, discard: false, settings: []}], @owner.log.last
    end
  end

  # A pooler's sessions end with each transaction.
  def test_a_pooler_s_session_state_is_not_ours
    in_loop do
      @owner.pooled = true
      with_lease { |lease| lease.leave_state("SET work_mem TO '1MB'", ["work_mem"]) }
      assert_equal [:give_back, {clean: true, discard: true, settings: ["work_mem"]}], @owner.log.last
    end
  end

  # The cancel request may arrive late.
  def test_a_cancelled_lease_is_not_clean
    in_loop do
      with_lease { |lease| assert_nil lease.cancel }
      assert_equal [:give_back, {clean: false, discard: true, settings: nil}], @owner.log.last
    end
  end

  def test_a_lost_connection_is_not_given_back
    in_loop do
      with_lease do |lease|
        lease.connection.break_off(PG::ConnectionBad.new("gone"))
        assert_predicate lease, :broken?
        assert_match(/gone. The transaction and its session state are lost/, assert_raises(PG::ConnectionBad) { execute(lease, "select 1") }.message)
      end
      assert_equal [[:lost]], @owner.log
    end
  end

  def test_fibers_take_turns
    in_loop do
      lease, pg = leased
      tasks = Array.new(3) { |n| NB.spawn { execute(lease, "select #{n}") } }
      3.times do |n|
        pass_until("the statement") { pg.waiting == 1 }
        assert_equal n + 1, pg.sent.size
        assert_equal PG::PQTRANS_ACTIVE, lease.transaction_status
        pg.answer
        tasks[n].value
      end
      assert_equal PG::PQTRANS_IDLE, lease.transaction_status
    end
  end

  # Otherwise its result would be taken for the next one's.
  def test_a_statement_left_behind_is_cancelled_before_the_next
    in_loop do
      lease, pg = leased
      left = NB.spawn { execute(lease, "select pg_sleep(9)") }
      pass_until("the statement") { pg.waiting == 1 }
      left.cancel
      pass_until("its end") { !left.alive? }
      later = NB.spawn { execute(lease, "select 1") }
      pass_until("the next one") { pg.sent.last == "select 1" }
      pg.answer
      assert_equal "SELECT 1", later.value.cmd_status
      assert_equal ["select pg_sleep(9)", "cancel", "select 1"], pg.sent
    end
  end

  def test_a_failed_begin_leaves_no_transaction
    in_loop do
      lease, pg = leased { |sql| (sql == "bad") ? NeverBlockTest::FakePg.error("42601") : NeverBlockTest::FakePg.ok }
      refute_predicate lease, :unbegun?
      assert_raises(PG::ServerError) { execute(lease, "bad", opening: "BEGIN") }
      assert_predicate lease, :unbegun?
      assert_equal PG::PQTRANS_INERROR, lease.transaction_status
      lease.end_unbegun
      refute_predicate lease, :unbegun?
      assert_equal "ROLLBACK", pg.sent.last
    end
  end

  def test_a_transaction_that_has_begun
    in_loop do
      lease, pg = leased { NeverBlockTest::FakePg.ok }
      pg.transaction_status = PG::PQTRANS_INTRANS
      execute(lease, "select 1", opening: "BEGIN")
      refute_predicate lease, :unbegun?
      assert_equal ["BEGIN", "select 1"], pg.sent
    end
  end

  def test_a_cancelled_begin_has_not_begun
    in_loop do
      lease, pg = leased
      task = NB.spawn { execute(lease, "select 1", opening: "BEGIN") }
      pass_until("the statement") { pg.waiting == 1 }
      task.cancel
      pass_until("its end") { !task.alive? }
      assert_predicate lease, :unbegun?
      assert_includes pg.sent, "cancel"
    end
  end

  def test_calls_of_pg_go_without_the_pipeline
    in_loop do
      lease, pg = leased { NeverBlockTest::FakePg.ok }
      value = lease.native do |given|
        assert_same pg, given
        assert lease.in_turn?
        assert_equal PG::PQ_PIPELINE_OFF, pg.pipeline_status
        lease.native { :nested }
      end
      assert_equal [:nested, true], [value, lease.plain?]
      execute(lease, "select 1")
      assert_equal [["discard_results", "select 1"], false], [pg.sent, lease.plain?]
      assert_same pg, lease.native_or_not { |given| given }
    end
  end

  def test_unread_results_that_can_t_be_read_end_the_connection
    in_loop do
      lease, pg = leased
      lease.native { nil }
      pg.define_singleton_method(:discard_results) { raise PG::ConnectionBad, "gone" }
      assert_match(/gone/, assert_raises(PG::ConnectionBad) { execute(lease, "select 1") }.message)
      assert_predicate lease, :broken?
    end
  end

  def test_a_socket_closed_meanwhile_is_named_as_such
    in_loop do
      lease, = leased
      error = assert_raises(PG::ConnectionBad) do
        lease.native do
          lease.connection.break_off(PG::ConnectionBad.new("gone"))
          raise IOError, "closed stream"
        end
      end
      assert_match(/gone. The transaction/, error.message)
      lease, = leased
      assert_raises(IOError) { lease.native { raise IOError, "of the user's own file" } }
    end
  end

  # Otherwise it would wait for the end of a COPY.
  def test_a_lease_that_another_fiber_uses_is_retired
    in_loop do
      lease, = leased
      user = NB.spawn { lease.native { sleep } }
      pass_until("its turn") { lease.plain? }
      lease.give_back
      assert_equal [:retire, true], @owner.log.last
      user.cancel
    end
  end

  def test_counters_of_a_lease
    in_loop do
      lease, = leased { NeverBlockTest::FakePg.ok }
      lease.plainly("copy t from stdin")
      assert_equal({shared: 0, alone: 0, leased: 1}, @owner.tally.to_h[:statements])
      assert_equal "copy t from stdin", lease.connection.holder.sql
      assert_equal 0.0, lease.queue_time
      assert_equal 5, lease.limited("select 1") { 5 }
      refute_predicate lease, :moved?
      lease.moved
      assert_predicate lease, :moved?
    end
  end

  private

  # @return [Array(Lease, FakePg)]
  def leased(&)
    pg = NeverBlockTest::FakePg.new(&)
    request = NeverBlock::Postgres::CheckoutRequest.new(defaults, "BEGIN", opening: true)
    one = connection(pg)
    one.holder = request
    request.granted(one)
    [NeverBlock::Postgres::Lease.new(@owner, one, request), pg]
  end

  # A lease for the block, returned afterwards.
  def with_lease
    lease, pg = leased { NeverBlockTest::FakePg.ok }
    yield lease, pg if block_given?
    lease.give_back
    lease
  end

  def execute(lease, sql, **) = lease.run(statement(sql, **))
end
