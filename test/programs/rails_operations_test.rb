# frozen_string_literal: true

# chaos: deployments and killed workers under load (60 s)

require "test_helper"
require "support/cluster/deploys"
require "support/cluster/kills"
require "support/long/record"
require "support/rails_releases"

# The tests of test/programs/cluster_test.rb under load, with workers of a Rails app in production; 20 of each with
# bin/test --long.
class RailsOperationsTest < Minitest::Test
  COUNT = Integer(ENV.fetch("NEVERBLOCK_LONG_DEPLOYS", "2"))

  # Seconds between a client's requests: Rails takes a processor for a hundred of them.
  PAUSE = ENV.key?("NEVERBLOCK_LONG_DEPLOYS") ? 0 : 0.05

  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_deploys_lose_nothing
    NeverBlockTest::RailsReleases.open do |releases|
      %w[USR1 USR2].each do |signal|
        deploys = NeverBlockTest::Deploys.new(signal, count: COUNT, releases:, pause: PAUSE).call
        assert_empty deploys.lost
        assert_equal deploys.sent, deploys.answered
        assert_operator deploys.answered, :>, 100
        NeverBlockTest::Record.add("deploys", Rails: releases.app.version, signal:, deploys: COUNT, refused: deploys.refused, requests: deploys.sent,
          lost: deploys.lost.size, seconds: deploys.seconds.round)
      end
    end
  end

  def test_killed_workers_cost_what_they_had_accepted
    NeverBlockTest::RailsReleases.open do |releases|
      kills = NeverBlockTest::Kills.new(count: COUNT, releases:, pause: PAUSE).call
      assert_empty kills.strays
      assert_equal kills.sent, kills.answered + kills.lost
      assert_operator kills.lost, :>, 0
      NeverBlockTest::Record.add("kills", Rails: releases.app.version, kills: COUNT, requests: kills.sent, connections: kills.connections,
        lost: kills.lost, strays: kills.strays.size)
    end
  end
end
