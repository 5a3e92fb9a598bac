# frozen_string_literal: true

# chaos: it kills processes of a cluster at random moments (20 s)

require "test_helper"
require "neverblock"
require "support/cluster/chaos"

# Whatever process of a cluster is killed, and whenever: what is left goes on, or ends; 500 of them: test/long/operations_test.rb
class ChaosTest < Minitest::Test
  KILLS = 30
  # Seconds beyond the load time, on however busy a machine.
  BACK = 20

  def test_processes_that_are_killed_at_random_moments
    chaos = NeverBlockTest::Chaos.new(kills: KILLS).call
    assert_empty chaos.strays, "seed #{chaos.seed}"
    assert_equal chaos.sent, chaos.answered + chaos.lost
    assert_operator chaos.slowest, :<=, BACK
  end
end
