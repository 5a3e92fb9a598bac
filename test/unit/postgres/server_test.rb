# frozen_string_literal: true

require "test_helper"

# Queries that tell one server from another.
class PostgresServerTest < Minitest::Test
  Result = Struct.new(:values)

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_its_description
    server, process = ask { ["2026-11-25", "true", "17", "7301"] }
    assert_equal ["2026-11-25", true, "7301", 17], [server.started, server.standby, server.cluster, process]
  end

  # A role may lack the right to read the cluster's identifier: then clusters can't be told apart.
  def test_a_role_that_may_not_see_the_cluster
    server, process = ask { |sql| sql.include?("pg_control_system") ? raise(PG::InsufficientPrivilege, "permission denied") : ["2026-11-25", "false", "17"] }
    assert_equal ["2026-11-25", false, nil, 17], [server.started, server.standby, server.cluster, process]
  end

  private

  def ask
    connection = Object.new
    connection.define_singleton_method(:exec) { |sql| Result.new([yield(sql)]) }
    NeverBlock::Postgres::Server.ask(connection)
  end
end
