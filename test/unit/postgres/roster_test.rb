# frozen_string_literal: true

require "test_helper"

# The pools of a process among the sources of NeverBlock.stats.
class PostgresRosterTest < Minitest::Test
  include NeverBlockTest::Helpers

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @databases = []
  end

  def teardown = @databases&.each(&:close)

  def test_a_pool_is_there_until_it_is_closed
    database = open("postgresql:///roster_one?host=db.internal&port=6432")
    assert_equal "roster_one@db.internal:6432", database.name
    figures = NeverBlock.stats[:postgres].fetch(database.name)
    assert_equal [12, 0, []], figures.values_at(:size, :connections, :holders)
    assert_equal figures.except(:slow), database.stats.except(:slow)
    database.close
    refute_includes NeverBlock.stats[:postgres], database.name
  end

  def test_no_two_have_the_same_name
    names = Array.new(3) { open("postgresql:///roster_two").name }
    assert_equal ["roster_two", "roster_two (2)", "roster_two (3)"], names
    @databases[1].close
    assert_equal "roster_two (2)", open("postgresql:///roster_two").name
  end

  def test_a_name_of_one_s_own
    assert_equal "primary", open("postgresql:///shop", name: "primary").name
    pooled = open("postgresql:///shop", name: "pooled", pgbouncer: :transaction, session_url: "postgresql:///shop")
    assert_equal [true, true], ["pooled", "pooled (sessions)"].map { |name| NeverBlock.stats[:postgres].key?(name) }
    pooled.close
    refute_includes NeverBlock.stats[:postgres], "pooled (sessions)"
  end

  def test_names_tell_no_secrets
    {
      "postgresql://app:secret@db/shop" => "shop@db", "host=db dbname=shop password=secret" => "shop@db", {"host" => "/run", "dbname" => "shop"} => "shop",
      {host: "db", port: 5432, dbname: "shop", password: "secret"} => "shop@db", {dbname: "postgresql://app:secret@db/shop"} => "shop@db",
      {host: "db", user: "app", dbname: nil} => "app@db", -> {} => "postgres", "host='" => "postgres"
    }.each { |target, name| assert_equal name, NeverBlock::Postgres::Roster.name_of(target), target.inspect }
  end

  # The bound is per process, however many pools register: a worker's report to its supervisor must not grow without
  # limit.
  def test_details_of_very_many_pools_are_bounded
    pool = Struct.new(:name) do
      def closed? = false

      def stats = {size: 60, holders: Array.new(60) { {state: "leased"} }, slow: {count: 10, shapes: Array.new(10) { {} }}}
    end
    pools = Array.new(30) { |n| pool.new("details #{n + 10}").tap { |one| NeverBlock::Postgres::Roster.join(one, one.name) {} } }
    figures = NeverBlock.stats[:postgres].select { |name, _| name.start_with?("details ") }
    assert_equal 30, figures.size
    assert_operator figures.values.sum { |one| one[:holders].size }, :<=, 100
    assert_equal [60], figures.values.map { |one| one[:size] }.uniq
  ensure
    pools&.each { |one| one.define_singleton_method(:closed?) { true } }
  end

  def test_dropped_pools_can_be_collected
    code = <<~RUBY
      require "neverblock/postgres"
      20.times { |n| NeverBlock::Postgres.new("postgresql:///dropped_\#{n}") }
      10.times { GC.start && Array.new(1_000) { +"" } }
      p NeverBlock.stats[:postgres].size < 20
    RUBY
    assert_equal "true\n", assert_ruby(code, gems: true)
  end

  private

  def open(target, **) = NeverBlock::Postgres.new(target, **).tap { |database| @databases << database }
end
