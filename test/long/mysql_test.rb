# frozen_string_literal: true

require "test_helper"
require_relative "../support/mysql"

# Minutes of what test/integration/mysql/chaos_test.rb does for seconds: fibers of three clients, killed connections, timeouts.
class LongMySQLTest < Minitest::Test
  include NeverBlockTest::MySQL

  SECONDS = Integer(ENV.fetch("NEVERBLOCK_LONG_MYSQL", "120"))

  def test_nothing_is_crossed_lost_doubled_or_late
    require_relative "../support/mysql_chaos"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    seed = Integer(ENV.fetch("SEED", "1"))
    chaos = NeverBlockTest::MySQLChaos.new(NeverBlockTest::MySQL.server, seconds: SECONDS, seed:)
    findings = in_loop(limit: SECONDS + 120) { chaos.call }
    puts "MySQL, #{SECONDS} s: #{chaos.counts}"
    assert_empty findings.tally.map { |finding, times| "#{times} × #{finding}" }, "seed #{seed}"
  end
end
