# frozen_string_literal: true

require "test_helper"

# Names of options that end with 0.4.
class PostgresDeprecatedOptionsTest < Minitest::Test
  include NeverBlockTest::Helpers

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    require "neverblock/postgres/databases"
  end

  def test_they_are_the_new_ones
    assert_equal({multiplex: :all, max_waiting: 5, timeout: 1}, rename(share: :all, backlog: 5, timeout: 1))
    assert_same database(multiplex: "all", max_waiting: "7"), database(share: "all", backlog: "7")
    assert_same database(multiplex: false), database(share: "all", multiplex: "false")
    assert_same database(multiplex: "all"), database(share: "all", multiplex: true)
  end

  def test_new_ones_are_left_alone
    options = {multiplex: :all}.freeze
    assert_same options, NeverBlock::Postgres::DeprecatedOptions.rename(options) { flunk }
  end

  def test_both_names
    assert_match(/\APostgreSQL's configuration: share: :all and multiplex: :reads are one option .* leave share: out\z/, assert_raises(NeverBlock::ConfigurationError) { rename(share: :all, multiplex: :reads) }.message)
    assert_match(/backlog: 1 and max_waiting: 2/, assert_raises(NeverBlock::ConfigurationError) { rename(backlog: 1, max_waiting: 2) }.message)
  end

  def test_each_is_told_once_in_a_process
    outcome = run_ruby(<<~RUBY, gems: true)
      require "neverblock/postgres"
      lines = []
      2.times { NeverBlock::Postgres.new("postgres:///", share: false, backlog: 5, log: lines.method(:<<)) }
      NeverBlock::Postgres.new("postgres:///", share: :all)
      puts lines
    RUBY
    assert_predicate outcome.status, :success?, outcome.stderr
    assert_equal [
      "PostgreSQL's option share: is deprecated, and ends with 0.4: write multiplex: :reads, :all or false instead",
      "PostgreSQL's option backlog: is deprecated, and ends with 0.4: write max_waiting: instead"
    ], outcome.stdout.lines(chomp: true)
  end

  private

  def rename(**options) = NeverBlock::Postgres::DeprecatedOptions.rename(options) { |_line| }

  def database(**config) = NeverBlock::Postgres::Databases.for({host: name}, config) { raise "no connection is opened" }
end
