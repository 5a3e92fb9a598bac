# frozen_string_literal: true

require "test_helper"

class PostgresServerHistoryTest < Minitest::Test
  Info = Struct.new(:conninfo_hash)

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @server_history = NeverBlock::Postgres::ServerHistory.new
  end

  def test_hosts_that_are_one
    one({host: nil}, {host: "db"}, {host: "db,db", hostaddr: "::1,127.0.0.1", port: "5432,5432"}, {host: "/run/a", port: "1"}, {hostaddr: "127.0.0.1"},
      {host: "/var/run/postgresql,/run/postgresql,/tmp"}, {host: "a,b", target_session_attrs: "read-write"}, {host: "a,b", target_session_attrs: "primary"})
  end

  def test_hosts_that_are_several
    [{host: "a,b"}, {host: "a,a", port: "1,2"}, {hostaddr: "127.0.0.1,127.0.0.2"}, {host: "a,b", target_session_attrs: "standby"}].each do |info|
      error = assert_raises(NeverBlock::ConfigurationError) { one(info) }
      assert_match(/names several servers/, error.message)
      assert_match(/target_session_attrs=read-write/, error.message)
    end
  end

  def test_one_after_the_other
    assert_equal [false, false], [@server_history.arrive(server("1")), @server_history.arrive(server("1"))]
    assert @server_history.arrive(server("2")), "it was restarted"
    assert @server_history.arrive(server("2", standby: true)), "its role has changed"
    error = assert_raises(NeverBlock::ConfigurationError) { @server_history.arrive(server("1")) }
    assert_match(/several servers in turn/, error.message)
    refute @server_history.arrive(server("2", standby: true))
  end

  def test_a_promotion
    @server_history.arrive(server("1", standby: true))
    assert_equal server("1", standby: true), @server_history.leave
    refute @server_history.arrive(server("1")), "its departure was reported"
  end

  def test_clusters
    assert_equal 0, @server_history.clusters
    %w[1 2].each { |started| @server_history.arrive(server(started)) }
    assert_equal 1, @server_history.clusters
    @server_history.arrive(server("3", cluster: "other"))
    assert_equal 2, @server_history.clusters
  end

  def test_behind_a_pooler_nothing_is_known
    refute @server_history.arrive(nil)
    refute @server_history.arrive(nil)
  end

  private

  def one(*infos) = infos.each { |info| NeverBlock::Postgres::ServerHistory.check(Info.new(info)) }

  def server(started, standby: false, cluster: "one") = NeverBlock::Postgres::Server.new(started:, standby:, cluster:)
end
