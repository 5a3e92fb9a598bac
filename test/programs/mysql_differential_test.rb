# frozen_string_literal: true

# slow: it does everything twice, with two adapters

require "test_helper"
require_relative "../support/mysql"

# The same operations with Rails' own adapter for trilogy and with ours in a loop: the same results, errors and SQL log.
class MySQLDifferentialTest < Minitest::Test
  include NeverBlockTest::MySQL

  LEAST = 300

  def setup
    super
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require "active_record"
    require "active_record/connection_adapters/trilogy_adapter"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Schema.verbose = false
    require_relative "../support/mysql_differential"
  end

  def test_the_two_adapters
    server = NeverBlockTest::MySQL.server
    plain = NeverBlockTest::MySQLDifferential.new("trilogy", server).call
    ours = in_loop(limit: 240) { NeverBlockTest::MySQLDifferential.new("neverblock_mysql", server, connections: 6).call }
    mistakes = plain.select { |outcome| outcome.error && %w[NoMethodError NameError ArgumentError].include?(outcome.error[0]) }
    assert_empty mistakes.map { |outcome| [outcome.name, outcome.error] }, "mistakes of the list"
    differences = NeverBlockTest::MySQLDifferential.differences(plain, ours)
    assert_empty differences, differences.join("\n")
    assert_operator plain.size, :>=, LEAST
  end
end
