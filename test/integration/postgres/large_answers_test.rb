# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# A large answer delays neither the loop nor the statements behind it on its connection.
class PostgresLargeAnswersTest < Minitest::Test
  include NeverBlockTest::Database

  PING = "select 'ping'"

  # libpq reads as much as its buffer holds, and so do we before other fibers run.
  def test_other_fibers_run_while_it_comes
    with_database(connections: 2) do |database|
      in_loop do
        database.exec(PING)
        turns = 0
        large = NB.spawn { database.exec(rows(200_000)).ntuples }
        counter = NB.spawn { sleep(0) && turns += 1 while large.alive? }
        assert_equal 200_000, large.value
        counter.value
        assert_operator turns, :>=, 200, "twenty megabytes came in #{turns} turns of the loop"
      end
    end
  end

  def test_its_size_is_learnt
    with_database(connections: 2) do |database|
      in_loop do
        timings = multiplexer(database).timings
        learn(database, PING)
        sizes = []
        timings.define_singleton_method(:record) { |shape, seconds, most, bytes| sizes << bytes and super(shape, seconds, most, bytes) }
        [1, 100_000].each { |count| database.exec(rows(count)) }
        assert_operator sizes.first, :<, 10_000
        assert_includes 10_000_000..20_000_000, sizes.last
        refute fast?(database, rows(1))
      end
    end
  end

  # Nothing predicted that this answer would be large. The loop is kept too busy to ever find the socket empty.
  slow "hundreds of megabytes"
  def test_statements_behind_it_do_not_wait_for_its_end
    with_database(connections: 1) do |database|
      in_loop do
        learn(database, rows(1), PING)
        physical(database).first.pg.socket_io.define_singleton_method(:wait_readable) { |seconds = nil| (seconds == 0 && Fiber.current.blocking?) ? self : super(seconds) }
        large = NB.spawn { database.exec(rows(4_000_000)).ntuples }
        ping = NB.spawn { one(database.exec(PING)) }
        assert_equal "ping", ping.value
        assert_predicate large, :alive?
        assert_equal 1, database.stats[:displaced]
        refute fast?(database, rows(1)), "no statement waits behind the next one"
        large.cancel
        assert_kind_of NB::Cancelled, outcome(large)
      end
    end
  end

  slow "hundreds of megabytes"
  def test_one_that_nothing_waits_for_is_left_alone
    with_database(connections: 2) do |database|
      in_loop do
        learn(database, rows(1), PING)
        large = NB.spawn { database.exec(rows(1_500_000)).ntuples }
        pings = 0
        one(database.exec(PING)).then { pings += 1 } while large.alive?
        assert_equal [1_500_000, 0], [large.value, database.stats[:displaced]]
        assert_operator pings, :>, 0
      end
    end
  end

  private

  # Rows of a hundred bytes each.
  def rows(count) = "select repeat('x', 100) from generate_series(1, #{count})"
end
