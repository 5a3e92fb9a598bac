# frozen_string_literal: true

# slow: it does everything twice, with two adapters

require "test_helper"
require_relative "../support/database"

# The same operations with Rails' own adapter and with ours in a loop: the same results, the same errors, the same SQL log.
class PostgresDifferentialTest < Minitest::Test
  include NeverBlockTest::Database

  LEAST = 500

  def setup
    super
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require_relative "../support/differential"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
  end

  def test_with_prepared_statements = compare(prepared_statements: true)

  def test_without_prepared_statements = compare(prepared_statements: false)

  private

  def compare(**options)
    server = NeverBlockTest::Database.server
    plain = NeverBlockTest::Differential.new("postgresql", server, **options).call
    ours = in_loop(limit: 240) { NeverBlockTest::Differential.new("neverblock_postgresql", server, connections: 6, **options).call }
    assert_empty plain.select { |outcome| outcome.error && %w[NoMethodError NameError].include?(outcome.error[:class]) }.map { |outcome| [outcome.name, outcome.error[:message]] }, "mistakes of the list"
    differences = NeverBlockTest::Differential.differences(plain, ours)
    assert_empty differences, differences.join("\n")
    assert_empty NeverBlockTest::Differential.idle_excuses(plain, ours), "differs: is not needed any more" unless NeverBlockTest::Differential::EARLY
    assert_operator plain.size, :>=, LEAST
  end
end
