# frozen_string_literal: true

require "test_helper"
require "support/fake_multiplexer"

# What becomes of a multiplexer's connections without users, in a forked child, and at the end.
class PostgresMultiplexerLifecycleTest < Minitest::Test
  include NeverBlockTest::FakeMultiplexer

  def test_without_members_idle_connections_are_closed
    in_loop do
      multiplexer = multiplexer(connections: 1)
      2.times { multiplexer.joined }
      multiplexer.run(statement("select 1"))
      multiplexer.parted
      refute_predicate pgs.first, :finished?
      multiplexer.parted
      assert_predicate pgs.first, :finished?
    end
  end

  def test_what_is_closed_says_so
    in_loop do
      multiplexer = multiplexer { nil }
      flying = NB.spawn { multiplexer.run(statement("select 1")) }
      pass_until("the statement") { pgs.first&.waiting == 1 }
      multiplexer.close
      assert_predicate multiplexer, :closed?
      assert_match(/was closed/, outcome(flying).message)
      assert_raises(NeverBlock::ClosedError) { multiplexer.run(statement("select 1")) }
      refute multiplexer.look_around, "the janitor need not come again"
    end
  end

  def test_a_forked_child_lets_go_of_its_parent_s_connections
    in_loop do
      multiplexer = multiplexer(connections: 1)
      multiplexer.run(statement("select 1"))
      multiplexer.disown
      assert_equal [1, :broken, 0], [@factory.disowned, @factory.opened.first.state, multiplexer.pool.connections.size]
      assert_equal "SELECT 1", multiplexer.run(statement("select 1")).cmd_status
      multiplexer.close
      multiplexer.disown
      assert_predicate multiplexer, :closed?
    end
  end
end
