# frozen_string_literal: true

require "test_helper"
require "support/routed"

# The order of waiting requests, and what a look at many of them costs.
class PostgresRouterLineTest < Minitest::Test
  include NeverBlockTest::Routed

  Request = Struct.new(:kind, :number)

  def setup
    super
    @line = NeverBlock::Postgres::Router::Line.new(&:kind)
  end

  def test_the_first_of_the_kinds_that_are_asked_for_leaves
    first, second, third = add(:a), add(:b), add(:a)
    assert_same first, @line.first
    assert_same second, @line.find { |one| one.kind == :b }
    assert_nil @line.find { false }
    assert_includes @line, first
    assert_same first, @line.delete(first)
    refute_includes @line, first
    assert_nil @line.delete(first)
    assert_same third, @line.find { |one| one.kind == :a }
    assert_equal [second, third], [@line.first, @line.to_a.last]
    assert_equal [third], @line.take_all { |one| one.kind == :a }
    assert_equal [false, 1, false], [@line.empty?, @line.size, @line.any? { |one| one.kind == :a }]
    @line.clear
    assert_equal [nil, true, 0], [@line.first, @line.empty?, @line.size]
  end

  def test_those_that_yield_get_every_second_turn
    slow = Array.new(4) { add(:slow, yields: true) }
    others = Array.new(2) { add(:a) }
    late = add(:slow, yields: true)
    assert_equal [slow[0], others[0], slow[1], others[1], slow[2], slow[3], late], drained
  end

  def test_those_that_yield_are_not_overtaken_by_all_that_come_later
    100.times { |n| add(n.even? ? :a : :b) }
    slow = Array.new(3) { add(:slow, yields: true) }
    96.times { @line.delete(@line.first) }
    before = @line.to_a - slow
    later = Array.new(3) { |n| add(n.even? ? :b : :a) }
    assert_equal [*before, slow[0], later[0], slow[1], later[1], slow[2], later[2]], drained
    more = Array.new(2) { add(:slow, yields: true) }
    @line.delete(more.shift)
    other = add(:a)
    assert_equal [*more, other], drained
  end

  # Regression: each end of a statement, and each request that left, asked about all that waited: with 4,000
  # transactions waiting a read took 6.8 ms, and cancelling them held the loop for seconds.
  def test_the_cost_of_a_step_does_not_grow_with_the_requests_that_wait
    few, many = [10, 300].map do |waiting|
      NeverBlock::Postgres::Router.new(limit: 3, timings: @timings).then { |router| calls_a_step(router, waiting) }
    end
    assert_operator many, :<, few * 1.2
  end

  private

  def add(kind, **options) = Request.new(kind, @line.size).tap { |request| @line.add(request, **options) }

  def drained = Array.new(@line.size) { @line.delete(@line.first) }

  # Leases wait for one connection, and statements share the other, which is idle in between.
  # @return [Float] method calls for one statement's end and one lease's leaving
  def calls_a_step(router, waiting)
    2.times { opened(router, checkout) }
    shared = opened(router, statement)
    leases = Array.new(waiting) { checkout.tap { |lease| assert_equal :queued, router.route(lease) } }
    calls = 0
    TracePoint.new(:call, :b_call, :c_call) { calls += 1 }.enable(target_thread: Thread.current) do
      leases.each do |lease|
        shared.end_one if shared.depth > 0
        router.settle(shared)
        router.withdraw(lease)
      end
    end
    assert_equal 0, router.waiting
    calls.fdiv(waiting)
  end

  def opened(router, request)
    assert_equal :open, router.route(request)
    Connection.new(session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY).tap do |connection|
      router.opened(connection, request)
    end
  end

  def checkout = NeverBlock::Postgres::CheckoutRequest.new(NeverBlock::Postgres::SessionDefaults::EMPTY, "BEGIN")

  def statement = NeverBlock::Postgres::Statement.new("select 1", session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY, alone: false)
end
