# frozen_string_literal: true

# engines: every - random traffic on each engine
# chaos: random traffic

require "test_helper"
require "support/long/idle"
require "support/long/soak"

# The soak of `bin/test --long`, here for seconds instead of minutes: all answers are right, and nothing is held when
# all clients have left. Memory needs a longer run: test/long.
class SoakTest < Minitest::Test
  def test_mixed_traffic
    skip "no /proc here" unless File.exist?("/proc/self/smaps_rollup")
    soak = NeverBlockTest::Soak.new(rounds: 2, seconds: 2, seed: 1).call
    assert_empty soak.wrong
    assert_operator soak.visits.size, :>, 20, "too few kinds of clients came"
    first, *others = soak.samples.drop(1).map { |sample| sample.values_at("descriptors", "threads") }
    others.each { |other| assert_equal first, other }
  end

  def test_idle_connections
    skip "no /proc here" unless File.exist?("/proc/self/smaps_rollup")
    idle = NeverBlockTest::Idle.new(500).call
    assert_equal [500, 500], idle.values_at(:answered, :kept)
    assert_operator idle[:objects], :<, 0.5, "an idle connection holds Ruby objects"
  end
end
