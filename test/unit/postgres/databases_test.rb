# frozen_string_literal: true

require "test_helper"

# The configurations by which adapters share databases.
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
    assert_same database(connections: 3, multiplex: :all), database(connections: "3", multiplex: "all")
    assert_same database(multiplex: false), database(multiplex: "false")
    [true, "true", :reads, "reads"].each { |value| assert_same database, database(multiplex: value) }
    assert_same database(pgbouncer: :transaction, session_url: "x", session_connections: 3), database(pgbouncer: "transaction", session_url: "x", session_connections: "3")
    assert_same database(shareable_functions: %w[price shop.tax]), database(shareable_functions: "price, shop.tax")
  end

  def test_limits
    assert_same database(max_age: 60, query_timeout: 1.5), database(max_age: "60", query_timeout: "1.5")
    assert_same database(min_connections: 2, pool_jitter: 0), database(min_connections: "2", pool_jitter: "0.0")
    assert_same database(keepalive: 600), database(keepalive: true)
    assert_same database(keepalive: false), database(keepalive: "0")
    refute_same database(keepalive: false), database
  end

  # Adapters with and without defaults share one, in any order.
  def test_an_adapter_s_defaults
    plain = database
    assert_same plain, NeverBlock::Postgres::Databases.for({host: name}, {}, {idle_timeout: 300}) { raise "no connection is opened" }
    assert_same plain, database
    assert plain.multiplexer.lifespan.any?
  end

  def test_invalid_configurations
    {
      connections: "0", max_waiting: "0", multiplex: "no", pgbouncer: "statement", session_connections: "none",
      max_age: "soon", idle_timeout: "-1", keepalive: "yes", query_timeout: "NaN", min_connections: "few", pool_jitter: "2", checkout_timeout: "long", audit: "maybe"
    }.each do |name, value|
      error = assert_raises(NeverBlock::ConfigurationError) { database(name => value) }
      assert_match(/\APostgreSQL's configuration: #{name}: "#{value}" is not .*\. For example: #{name}: /, error.message)
    end
  end

  def test_the_effective_options_as_text
    libpq = PG.library_version.divmod(10_000).join(".")
    assert_match(/\A12 connections of this process, multiplex: reads, pipelined by libpq #{libpq}/, NeverBlock::Postgres::Databases.describe({}))
    assert_match(/\A3 connections of this process, multiplex: false by libpq/, NeverBlock::Postgres::Databases.describe({connections: "3", multiplex: false}))
    assert_match(/, max_age: 3600 s, query_timeout: 0.5 s, min_connections: 2\z/, NeverBlock::Postgres::Databases.describe({max_age: 3600, query_timeout: "0.5", min_connections: 2, keepalive: false}))
  end

  private

  def database(parameters = {host: name}, **config) = NeverBlock::Postgres::Databases.for(parameters, config) { raise "no connection is opened" }
end
