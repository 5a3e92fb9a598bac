# frozen_string_literal: true

require "test_helper"

# The arguments of a connection factory.
class PostgresConnectionFactoryTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_the_depth_is_checked
    [0, -1, 1.5, nil].each do |depth|
      error = assert_raises(ArgumentError) { NeverBlock::Postgres::ConnectionFactory.new(-> {}, audit: nil, depth:, lifespan: nil) }
      assert_equal "depth: #{depth.inspect} is not a whole number, 1 or more", error.message
    end
  end
end
