# frozen_string_literal: true

# chaos: random operations, with a new seed for each run

require "test_helper"
require_relative "../../support/mysql"

# Fibers of three clients, over few connections that are killed at random: nothing is crossed, lost, doubled or late.
class MySQLChaosTest < Minitest::Test
  include NeverBlockTest::MySQL

  SECONDS = Integer(ENV.fetch("NEVERBLOCK_MYSQL_CHAOS", "3"))

  def test_nothing_is_crossed_lost_doubled_or_late = spread("trilogy")

  def test_nothing_is_either_with_mysql2 = spread("mysql2")

  private

  def spread(driver)
    skip "#{driver} is not among the gems here" unless Gem.loaded_specs.key?(driver)
    skip "activerecord and sequel are not among the gems here" unless %w[activerecord sequel].all? { |gem| Gem.loaded_specs.key?(gem) }
    require_relative "../../support/mysql_chaos"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    seed = Integer(ENV.fetch("SEED", Random.new_seed % 10_000))
    chaos = NeverBlockTest::MySQLChaos.new(NeverBlockTest::MySQL.server, seconds: SECONDS, seed:, driver:)
    findings = in_loop(limit: SECONDS + 90) { chaos.call }
    puts "\nseed #{seed}: #{chaos.counts}" if ENV["NEVERBLOCK_MYSQL_CHAOS"]
    assert_empty findings.tally.map { |finding, times| "#{times} × #{finding}" }, "seed #{seed}, #{chaos.counts}"
  end
end
