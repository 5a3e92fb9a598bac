# frozen_string_literal: true

require "test_helper"

# The prepared names of a connection: how long a name is valid, and how many there are.
class PostgresNamesTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @names = NeverBlock::Postgres::Names.new
  end

  def test_a_name_serves_what_was_prepared_before_it_was_parsed
    key = add("select $1", at: 2.0)
    assert_equal "nb1", @names.find(key, since: 1.0)
    assert_nil @names.find(key, since: 3.0)
    assert_equal ["nb1"], @names.take_given_up
    assert_nil @names.find(key, since: 1.0)
  end

  def test_a_change_of_tables_outdates_all
    key = add("select $1", at: 2.0)
    @names.outdate(2.0)
    assert_nil @names.find(key, since: 1.0)
    @names.add(key, "nb2", at: 2.1)
    assert_equal "nb2", @names.find(key, since: 1.0)
  end

  def test_the_least_recently_used_goes_first
    keys = Array.new(NeverBlock::Postgres::Names::MAX_PREPARED) { |number| add("select #{number}", at: 1.0) }
    assert @names.find(keys[0], since: 0.0)
    add("one more", at: 1.0)
    assert_nil @names.find(keys[1], since: 0.0)
    assert_equal "nb1", @names.find(keys[0], since: 0.0)
    assert_equal ["nb2"], @names.take_given_up
    assert_empty @names.take_given_up
  end

  def test_names_unknown_to_the_server_are_not_deallocated
    key = add("select $1", at: 1.0)
    @names.give_up(key, known: false)
    assert_nil @names.find(key, since: 0.0)
    assert_empty @names.take_given_up
  end

  # It may have been parsed under settings that are gone.
  def test_names_parsed_after_a_doubtful_statement_are_given_up
    before, by, after = [1.0, 2.0, 3.0].map { |at| add("select $#{at.to_i}", at:) }
    2.times { |n| @names.distrust(2.0 + n) }
    assert @names.find(after, since: 0.0)
    @names.trust
    assert_equal [true, true, false], [before, by, after].map { |key| !@names.find(key, since: 0.0).nil? }
    assert_equal ["nb3"], @names.take_given_up
    later = add("select $4", at: 4.0)
    @names.trust
    assert @names.find(later, since: 0.0)
  end

  def test_a_server_that_has_forgotten_all
    key = add("select $1", at: 1.0)
    @names.give_up(add("select $2", at: 1.0))
    @names.clear
    assert_nil @names.find(key, since: 0.0)
    assert_empty @names.take_given_up
    assert_equal "nb3", @names.next
  end

  private

  def add(key, at:) = key.tap { @names.add(key, @names.next, at:) }
end
