# frozen_string_literal: true

require "test_helper"
require "support/routed"

# The connection for a shared statement: an idle one, otherwise the one with the fewest statements.
class PostgresRouterLeastTest < Minitest::Test
  include NeverBlockTest::Routed

  # Neither behind other statements, nor on a new connection.
  def test_an_idle_one_comes_first
    first, second = Array.new(2) { place(statement) }
    over(second)
    assert_equal [second], served(1)
    assert_equal [1, 1], [first, second].map(&:depth)
    over(first)
    assert_equal [first], served(1)
  end

  def test_a_new_connection_is_opened_before_statements_share_one
    2.times { place(statement) }
    assert_equal :open, @router.route(statement)
    assert_equal [1, 1], @router.connections.map(&:depth)
  end

  # The connection that is being opened may take a while.
  def test_no_statement_waits_for_a_connection_that_is_being_opened
    first, second = Array.new(2) { place(statement) }
    @router.route(statement)
    first.depth = 2
    assert_equal [second], served(1)
  end

  # At any position in the list.
  def test_the_one_with_the_fewest
    connections = Array.new(3) { place(statement) }
    connections.each_index do |fewest|
      connections.each { |connection| connection.depth = 5 }
      connections[fewest].depth = 4
      assert_equal [connections[fewest]], served(1)
    end
  end

  def test_many_are_spread_evenly
    connections = Array.new(3) { place(statement) }
    connections.zip([7, 1, 4]) { |connection, depth| connection.depth = depth }
    served(12)
    assert_equal [8, 8, 8], connections.map(&:depth)
  end

  # Each of them has the fewest, and a reason to be skipped.
  def test_some_take_none_though_they_have_the_fewest
    connections = Array.new(3) { place(statement) }
    {
      holder: :another, draining: true, capacity: 1, running: @timings.threshold + 0.001, loop: Object.new, session_defaults: :another
    }.each do |property, value|
      connections.zip([3, 1, 2]) { |connection, depth| connection.depth = depth }
      before = connections[1][property]
      connections[1][property] = value
      assert_equal [connections[2]], served(1), property.to_s
      connections[1][property] = before
      assert_equal [connections[1]], served(1), "#{property} was the reason"
    end
  end

  # The statement has run for some time, but no longer than a fast one takes.
  def test_one_on_which_something_fast_runs_takes_more
    connections = Array.new(3) { place(statement) }
    connections.each { |connection| connection.running = @timings.threshold }
    connections[1].depth = 0.5
    assert_equal [connections[1]], served(1)
  end

  def test_where_all_are_full_it_waits_for_the_first_that_has_room
    connections = Array.new(3) { place(statement) }
    connections.each { |connection| connection.depth = connection.capacity }
    waiting = Array.new(2) { statement }
    assert_equal %i[queued queued], waiting.map { |request| @router.route(request) }
    connections[1].end_one
    @router.settle(connections[1])
    assert_equal [connections[1], nil], waiting.map(&:connection)
    assert_equal [64, 64, 64], connections.map(&:depth)
  end

  private

  def statement
    NeverBlock::Postgres::Statement.new("select 1", session_defaults: :plain).tap do |statement|
      statement.define_singleton_method(:wake) {}
      statement.define_singleton_method(:granted) { |connection| (self.connection = connection).push(self) }
    end
  end

  # @return [Connection] a new one, with the statement on it
  def place(request)
    assert_equal :open, @router.route(request)
    Connection.new.tap { |connection| @router.opened(connection, request) }
  end

  # @return [Array<Connection>] the places of so many statements, one after the other
  def served(count)
    Array.new(count) do
      request = statement
      assert_equal :placed, @router.route(request)
      request.connection
    end
  end

  def over(connection)
    connection.end_one
    @router.settle(connection)
  end
end
