# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/cluster/chaos"
require "support/cluster/deploys"
require "support/cluster/growth"
require "support/cluster/kills"
require "support/long/record"

# Twenty deployments and kills where test/programs/cluster_test.rb has three, five hundred kills where chaos_test.rb has
# thirty, and a worker's memory after 200,000 requests.
class LongOperationsTest < Minitest::Test
  COUNT = Integer(ENV.fetch("NEVERBLOCK_LONG_DEPLOYS", "20"))
  REQUESTS = Integer(ENV.fetch("NEVERBLOCK_LONG_REQUESTS", "200000"))

  KILLS = Integer(ENV.fetch("NEVERBLOCK_LONG_KILLS", "500"))
  # Seconds until the service is back, or all processes have ended with the supervisor.
  BACK = 3

  # The measurement is coarse; a leak of 20 bytes a request would be twice this.
  GROWTH = 2 << 20

  %w[USR1 USR2].each do |signal|
    define_method(:"test_deploys_by_#{signal}_lose_nothing") do
      deploys = NeverBlockTest::Deploys.new(signal, count: COUNT, pause: 0).call
      assert_empty deploys.lost
      assert_equal deploys.sent, deploys.answered
      record("deploys", signal:, deploys: COUNT, refused: deploys.refused, requests: deploys.sent, lost: deploys.lost.size, seconds: deploys.seconds)
    end
  end

  def test_killed_workers_cost_what_they_had_accepted
    kills = NeverBlockTest::Kills.new(count: COUNT, pause: 0).call
    assert_empty kills.strays
    assert_equal kills.sent, kills.answered + kills.lost
    assert_operator kills.lost, :>, 0
    record("kills", kills: COUNT, requests: kills.sent, connections: kills.connections, lost: kills.lost, strays: kills.strays.size, seconds: kills.seconds)
  end

  def test_processes_that_are_killed_at_random_moments
    chaos = NeverBlockTest::Chaos.new(kills: KILLS).call
    assert_empty chaos.strays
    assert_operator chaos.slowest, :<=, BACK, "seconds beyond the load time, seed #{chaos.seed}"
    record("chaos", kills: chaos.killed, requests: chaos.sent, lost: chaos.lost, strays: chaos.strays.size, slowest: chaos.slowest.round(2), seconds: chaos.seconds)
  end

  def test_a_worker_does_not_grow
    growth = NeverBlockTest::Growth.new(requests: REQUESTS).call
    assert_equal 0, growth.lost
    assert_operator growth.bytes, :<=, GROWTH, "bytes of PSS after #{growth.answered} requests"
    record("growth", requests: growth.answered, before: growth.before, after: growth.after)
  end

  private

  def record(what, **figures)
    figures[:seconds] = figures[:seconds].round if figures[:seconds]
    NeverBlockTest::Record.add(what, engine: NeverBlock.engine.name, **figures)
  end
end
