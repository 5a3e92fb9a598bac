# frozen_string_literal: true

# chaos: it kills processes of a cluster at random moments (20 s)

require "test_helper"
require "neverblock"
require "support/cluster/chaos"

# Any process of a cluster is killed at any moment: the others go on, or end; 500 kills: test/long/operations_test.rb
class ChaosTest < Minitest::Test
  KILLS = 30
  # Seconds beyond the load time, even on a busy machine.
  BACK = 20

  def test_processes_that_are_killed_at_random_moments
    chaos = NeverBlockTest::Chaos.new(kills: KILLS).call
    assert_empty chaos.strays, "seed #{chaos.seed}"
    assert_equal chaos.sent, chaos.answered + chaos.lost
    assert_operator chaos.slowest, :<=, BACK
  end
end
