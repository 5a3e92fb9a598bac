# frozen_string_literal: true

require "test_helper"
require "support/routed"
require "support/virtual_time"

# The connection that a request gets, without a server.
class PostgresRouterTest < Minitest::Test
  include NeverBlockTest::VirtualTime
  include NeverBlockTest::Routed

  def test_counts_by_use
    2.times { place(statement(alone: true)) }
    waiting = statement(alone: true)
    @router.route(waiting)
    @router.route(statement(alone: false))
    assert_equal({size: 3, busy: 2, states: {idle: 0, shared: 0, alone: 2, leased: 0, restoring: 0, opening: 1}}, @router.uses)
    assert_equal 2, @router.holdings.size
  end

  # One connection is kept for sharing as long as there are statements that share; then waiting requests get it.
  def test_the_shared_connection_is_used_when_no_statement_shares
    shared = statement(alone: false)
    place(shared)
    slow = Array.new(2) { statement(alone: true) }
    slow.each { |request| place(request) }
    waiting = Array.new(2) { statement(alone: true) }
    assert_equal %i[queued queued], waiting.map { |request| @router.route(request) }
    over(shared)
    assert_equal [1, 2, 2], @router.stats.values_at(:idle, :held, :queued)

    clock.advance(2 * NeverBlock::Postgres::Router::SHARING_EXPECTED_FOR)
    over(slow.first)
    assert waiting.first.connection, "it has the connection of the one that is over"
    assert waiting.last.asked, "it is told to ask again, since a connection is idle"
    assert_equal :placed, @router.route(waiting.last)
  end

  # Statements that share count as expected as long as some wait. Regression: a thousand of them waited until the last
  # sleeper was done.
  def test_statements_that_share_are_not_behind_all_slow_ones
    sleepers = Array.new(6) { statement(alone: true) }
    3.times { |n| place(sleepers[n]) }
    sleepers.drop(3).each { |request| assert_equal :queued, @router.route(request) }
    shared = Array.new(2) { statement(alone: false) }
    shared.each { |request| assert_equal :queued, @router.route(request) }
    clock.advance(2 * NeverBlock::Postgres::Router::SHARING_EXPECTED_FOR)
    over(sleepers.first)
    assert shared.all?(&:connection)
    assert_nil sleepers[3].connection
    shared.each { |request| over(request) }
    assert_equal [1, 2, 3], @router.stats.values_at(:idle, :held, :queued)
  end

  # No other event may wake it when sharing ends. Regression: with Active Record, a wave of sleepers was one connection
  # short.
  def test_the_first_that_waits_for_what_is_left_to_share_is_told_to_look_again
    place(shared = statement(alone: false))
    2.times { place(statement(alone: true)) }
    waiting = Array.new(3) { statement(alone: true) }
    waiting.each { |request| assert_equal :queued, @router.route(request) }
    over(shared)
    assert_equal [true, nil, nil], waiting.map(&:asked)
    assert_equal [true, false, false], waiting.map { |request| @router.deferred?(request) }

    @router.withdraw(waiting.first)
    assert_equal [true, nil], waiting.drop(1).map(&:asked)
    assert_equal [true, false], waiting.drop(1).map { |request| @router.first?(request) }
  end

  # Many known-slow statements wait: statements that may be fast get every other connection, so neither kind waits for
  # all of the other.
  def test_known_slow_statements_take_every_other_turn
    @timings.record(slow = -"slow", 1.0)
    place(running = statement(alone: true))
    place(statement(alone: true))
    sleepers = Array.new(4) { statement(alone: true, fingerprint: slow) }
    place(statement(alone: false)) # one connection is kept for it
    sleepers.each { |request| assert_equal :queued, @router.route(request) }
    writes = Array.new(2) { statement(alone: true) }
    writes.each { |request| assert_equal :queued, @router.route(request) }
    late = statement(alone: true, fingerprint: slow)
    @router.route(late)

    order = [*sleepers, *writes, late].size.times.map do
      over(running)
      running = [*sleepers, *writes, late].find { |request| request.connection && request.connection.holder.equal?(request) }
    end
    assert_equal [sleepers[0], writes[0], sleepers[1], writes[1], *sleepers[2..], late], order
  end

  # Regression: on a busy server a fast shape counted as slow. Sleeping statements, which got every other free
  # connection, took all of them, and a hundred fast ones waited until those had slept.
  def test_statements_of_one_shape_leave_a_connection_to_others
    @timings.record(slow = -"slow", 1.0)
    sleepers = Array.new(5) { statement(alone: true, fingerprint: -"sleep") }
    3.times { |n| place(sleepers[n]) }
    others = Array.new(2) { statement(alone: true, fingerprint: slow) }
    [*sleepers[3..], *others].each { |request| assert_equal :queued, @router.route(request) }
    over(sleepers[0])
    assert_equal [false, false, true, false], has(*sleepers[3..], *others)
    over(others[0])
    assert_equal [false, false, true], has(*sleepers[3..], others[1])
    over(others[1])
    assert_equal [true, false], has(*sleepers[3..]), "no others wait"
  end

  def test_what_is_left_to_others_is_taken_when_they_are_withdrawn
    sleepers = Array.new(4) { statement(alone: true, fingerprint: -"sleep") }
    3.times { |n| place(sleepers[n]) }
    assert_equal :queued, @router.route(other = statement(alone: true))
    assert_equal :queued, @router.route(sleepers[3])
    @router.withdraw(other)
    over(sleepers[0])
    assert_equal [true], has(sleepers[3])
  end

  # Regression: they had left the queue, had not asked again yet, and a sleeping statement got the last connection.
  def test_a_connection_is_left_to_share_for_those_that_learnt_to
    sleepers = Array.new(4) { statement(alone: true, fingerprint: -"sleep") }
    2.times { |n| place(sleepers[n]) }
    place(first = statement(alone: true, fingerprint: read = -"read"))
    assert_equal :queued, @router.route(second = statement(alone: true, fingerprint: read))
    assert_equal :queued, @router.route(sleepers[2])
    @router.learnt_fast(read)
    over(first)
    assert_equal [false], has(sleepers[2])
    assert second.asked
    refute_predicate second, :exclusive?
    assert_equal :placed, @router.route(second)
  end

  # Otherwise a write would wait for the end of a slow read.
  def test_known_slow_statements_leave_a_connection_to_writes
    @timings.record(slow = -"slow", 1.0)
    place(write = statement(alone: true))
    over(write)
    sleepers = Array.new(4) { statement(alone: true, fingerprint: slow) }
    assert_equal :placed, @router.route(sleepers[0])
    place(sleepers[1])
    assert_equal %i[queued queued], sleepers.drop(2).map { |request| @router.route(request) }
    refute(@router.connections.any?(&:draining))
    place(write = statement(alone: true))
    assert_equal :queued, @router.route(late = statement(alone: true))
    over(sleepers[0])
    assert_equal [true, false, false], has(sleepers[2], late, sleepers[3]), "its turn"
    over(write)
    assert_equal [true, false], has(late, sleepers[3])
    over(late)
    assert_equal [false, 1], [*has(sleepers[3]), @router.stats[:idle]]
  end

  def test_known_slow_statements_take_all_connections_without_writes
    @timings.record(slow = -"slow", 1.0)
    place(write = statement(alone: true))
    over(write)
    clock.advance(NeverBlock::Postgres::Router::WRITES_EXPECTED_FOR + 0.001)
    sleepers = Array.new(4) { statement(alone: true, fingerprint: slow) }
    assert_equal :placed, @router.route(sleepers[0])
    2.times { |n| place(sleepers[n + 1]) }
    assert_equal :queued, @router.route(sleepers[3])
    over(sleepers[0])
    assert_equal [true], has(sleepers[3])
  end

  # If no write has come for a second, and no other event tells it.
  def test_a_slow_statement_looks_again_for_the_connection_left_to_writes
    @timings.record(slow = -"slow", 1.0)
    place(write = statement(alone: true))
    sleepers = Array.new(3) { statement(alone: true, fingerprint: slow) }
    2.times { |n| place(sleepers[n]) }
    assert_equal :queued, @router.route(sleepers[2])
    over(write)
    assert @router.deferred?(sleepers[2])
    2.times do |n|
      sleepers[2].asked = false
      @router.nudge
      assert_equal n == 1, sleepers[2].asked
      clock.advance(NeverBlock::Postgres::Router::WRITES_EXPECTED_FOR + 0.001)
    end
    assert_equal :placed, @router.route(sleepers[2])
  end

  # A statement that was cancelled for them must not block them again, nor must others that may wait for the same lock.
  def test_a_connection_that_was_relieved_goes_to_those_that_share_first
    held = Array.new(3) { statement(alone: true) }
    held.each { |request| place(request) }
    write, read = statement(alone: true), statement(alone: false)
    [write, read].each { |request| assert_equal :queued, @router.route(request) }
    held.first.connection.relieving = true
    clock.advance(2 * NeverBlock::Postgres::Router::SHARING_EXPECTED_FOR)
    over(held.first)
    assert_equal [nil, held.first.connection, false], [write.connection, read.connection, read.connection.relieving]
  end

  # Only if a transaction is idle, and so may wait for it.
  def test_a_waiting_statement_is_stuck_if_a_transaction_may_wait_for_it
    held = Array.new(3) { statement(alone: true) }
    held.each { |request| place(request) }
    refute @router.stuck?(0.1)
    assert_equal :queued, @router.route(statement(alone: false))
    refute @router.stuck?(0.1)
    held.last.connection.rests = 0.2
    assert @router.stuck?(0.1)
    refute @router.stuck?(0.3)
  end

  # Fibers with leases wait for a lock that its fiber owns.
  def test_an_urgent_lease_gets_the_connection_left_to_share
    place(shared = statement(alone: false))
    2.times { place(lease) }
    waiting = [lease, lease(urgent: true)]
    assert_equal %i[queued queued], waiting.map { |request| @router.route(request) }
    assert_predicate shared.connection, :draining
    over(shared)
    assert_equal [false, true], has(*waiting)
    assert_equal :queued, @router.route(lease(urgent: true))
    over(waiting.last)
    assert_equal [3, 1], @router.stats.values_at(:held, :queued), "the other urgent one has it now"
    assert_equal [false], has(waiting.first)
  end

  # A lent connection serves one statement by itself; one connection is kept for all others.
  def test_idle_connections_are_lent_but_for_one
    idle(3)
    first, second = Array.new(2) { @router.lend(statement(alone: false), clock.now) }
    assert_equal [true, true], [first.lent, second.lent]
    assert_nil @router.lend(statement(alone: false), clock.now)

    assert_equal [:placed, :placed], Array.new(2) { @router.route(statement(alone: false)) }, "both are on the one that is left"
    assert @router.take_back(first)
    assert_equal [false, first], [first.lent, @router.lend(statement(alone: false), clock.now)]
  end

  def test_a_waiting_statement_gets_a_connection_that_was_lent
    idle(2)
    lent = @router.lend(statement(alone: false), clock.now)
    place_idle(statement(alone: true))
    waiting = statement(alone: true)
    assert_equal :open, @router.route(waiting)
    queued = statement(alone: true)
    assert_equal :queued, @router.route(queued)
    refute @router.take_back(lent)
    clock.advance(2 * NeverBlock::Postgres::Router::SHARING_EXPECTED_FOR)
    @router.settle(lent)
    assert_equal [false, lent], [lent.lent, queued.connection]
  end

  # When statements queue behind each other, there are more of them than connections: then they are sent together.
  def test_nothing_is_lent_in_a_crowd
    idle(3)
    lent = Array.new(2) { @router.lend(statement(alone: false), clock.now) }
    crowd = Array.new(NeverBlock::Postgres::Router::CROWDED_DEPTH + 1) { statement(alone: false) }
    crowd.each { |request| assert_equal :placed, @router.route(request) }
    lent.each { |connection| assert @router.take_back(connection) }
    assert_nil @router.lend(statement(alone: false), clock.now)

    crowd.each { |request| over(request) }
    assert @router.lend(statement(alone: false), clock.now), "the crowd is over"
  end

  # Connections in advance, as many as WarmStart asks for.
  def test_an_extra_connection_is_opened_while_fewer_are_open
    place(statement(alone: true))
    assert_equal [1, true, true, false], [@router.serving(:plain), *Array.new(3) { @router.begin_extra(:plain, 3) }]
    assert_equal 3, @router.serving(:plain), "those that are being opened count"
    refute @router.begin_extra(:plain, 4), "the limit is three"
  end

  # An adapter's first statements have other session defaults than its later ones.
  def test_an_extra_connection_takes_the_place_of_one_that_rests_with_other_session_defaults
    place(busy = statement(alone: true))
    old, recent = idle(2).map(&:connection)
    [old, recent, busy.connection].zip([100, 0.5, 100]) { |connection, seconds| (clock.now - seconds).then { |heard| connection.define_singleton_method(:heard) { heard } } }
    refute @router.begin_extra(:plain, 3), "there are three"
    assert @router.begin_extra(:others, 1)
    assert_same old, @router.victim
    assert_equal [[busy.connection, recent], 1], [@router.connections, @router.stats[:idle]]
    refute @router.begin_extra(:others, 2), "the one that is given up is not closed yet"
    @router.victim = nil
    refute @router.begin_extra(:others, 2), "the other one was used just now"
  end

  # Regression: two of them woke each other for ever while another fiber was opening a connection, which that kept from
  # its answer.
  def test_requests_that_get_no_place_in_an_outage_wake_no_others
    place(busy = statement(alone: true))
    idle(1)
    @router.route(opening = statement(alone: true, session_defaults: :others)) # replaces the idle one
    @router.victim = nil
    @router.not_opened(opening, RuntimeError.new("the server is away"))
    over(busy)
    clock.advance(2 * NeverBlock::Postgres::Backoff::LONGEST_PAUSE)
    assert_equal :open, @router.route(statement(alone: true, session_defaults: :others)), "one attempt is under way"
    waiting = [true, true, false, false].map { |alone| statement(alone:, session_defaults: :others) }
    assert_equal [:queued] * 4, waiting.map { |request| @router.route(request) }
    @router.deferred?(waiting.first) # as it asks before it waits
    @router.withdraw(waiting.pop)
    refute waiting.any?(&:asked), "the idle connection has other session defaults"
    @router.route(ours = statement(alone: true))
    assert ours.connection, "which others have"
  end

  private

  # So many idle connections.
  def idle(number) = Array.new(number) { statement(alone: true).tap { |request| place(request) } }.each { |request| over(request) }

  def place_idle(request) = assert_equal(:placed, @router.route(request))

  # @return [Array<Boolean>] whether each has an exclusive connection
  def has(*requests) = requests.map { |request| !request.connection.nil? && request.connection.holder.equal?(request) }

  def statement(alone:, fingerprint: nil, session_defaults: :plain)
    NeverBlock::Postgres::Statement.new("select 1", session_defaults:, alone:, fingerprint:).tap do |statement|
      statement.singleton_class.attr_accessor :asked
      statement.define_singleton_method(:wake) { @asked = true }
      statement.define_singleton_method(:granted) { |connection| (self.connection = connection).push(self) }
    end
  end

  def lease(urgent: false)
    statement(alone: true).tap do |request|
      request.define_singleton_method(:lease?) { true }
      request.define_singleton_method(:urgent?) { urgent }
    end
  end

  def place(request)
    assert_equal :open, @router.route(request)
    connection = Connection.new
    @router.opened(connection, request)
    request.connection = connection
  end

  def over(request)
    request.connection.end_one
    @router.settle(request.connection)
  end
end
