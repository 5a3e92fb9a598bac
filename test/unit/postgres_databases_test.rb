# frozen_string_literal: true

# engines: one - it compares configurations

require "test_helper"

# The configurations that adapters share databases by.
class PostgresDatabasesTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    require "neverblock/postgres/databases"
  end

  def test_one_for_each_configuration
    assert_same database(connections: 3), database(connections: 3)
    refute_same database(connections: 3), database(connections: 4)
    refute_same database(connections: 3), database({host: "elsewhere"}, connections: 3)
  end

  # In a URL all values are text.
  def test_a_url_s_values
    assert_same database(connections: 3, share: :all), database(connections: "3", share: "all")
    assert_same database(multiplex: false), database(multiplex: "false")
    assert_same database, database(multiplex: "true")
    assert_same database(pgbouncer: :transaction, session_url: "x", session_connections: 3), database(pgbouncer: "transaction", session_url: "x", session_connections: "3")
    assert_same database(shareable_functions: %w[price shop.tax]), database(shareable_functions: "price, shop.tax")
  end

  def test_what_can_t_be
    {connections: "0", share: "some", multiplex: "no", pgbouncer: "statement", session_connections: "none"}.each do |name, value|
      error = assert_raises(NeverBlock::ConfigurationError) { database(name => value) }
      assert_match(/#{name}: "#{value}" is n/, error.message)
    end
  end

  def test_what_is_in_force_in_words
    libpq = PG.library_version.divmod(10_000).join(".")
    assert_match(/\A12 connections of this process, share: reads, pipelined by libpq #{libpq}/, NeverBlock::Postgres::Databases.describe({}))
    assert_match(/\A3 connections of this process, multiplex: false by libpq/, NeverBlock::Postgres::Databases.describe({connections: "3", multiplex: false}))
  end

  private

  def database(parameters = {host: name}, **config) = NeverBlock::Postgres::Databases.for(parameters, config) { raise "nobody connects" }
end
