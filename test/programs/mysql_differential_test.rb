# frozen_string_literal: true

# slow: it does everything twice, with two adapters

require "test_helper"
require_relative "../support/mysql"

# The same operations with Rails' own adapter and with ours in a loop: the same results, errors and SQL log.
class MySQLDifferentialTest < Minitest::Test
  include NeverBlockTest::MySQL

  LEAST = 300

  def setup
    super
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require "active_record"
    require "active_record/connection_adapters/abstract_mysql_adapter"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Schema.verbose = false
    require_relative "../support/mysql_differential"
  end

  def test_trilogy = compare("trilogy", "neverblock_mysql")

  def test_mysql2
    skip "mysql2 is not among the gems here" unless Gem.loaded_specs.key?("mysql2")
    compare("mysql2", "neverblock_mysql2")
  end

  private

  def compare(stock, name)
    require "active_record/connection_adapters/#{stock}_adapter"
    server = NeverBlockTest::MySQL.server
    plain = NeverBlockTest::MySQLDifferential.new(stock, server).call
    ours = in_loop(limit: 240) { NeverBlockTest::MySQLDifferential.new(name, server, connections: 6).call }
    mistakes = plain.select { |outcome| outcome.error && %w[NoMethodError NameError ArgumentError].include?(outcome.error[0]) }
    assert_empty mistakes.map { |outcome| [outcome.name, outcome.error] }, "mistakes of the list"
    differences = NeverBlockTest::MySQLDifferential.differences(plain, ours)
    assert_empty differences, differences.join("\n")
    assert_operator plain.size, :>=, LEAST
  end
end
