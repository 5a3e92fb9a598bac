# frozen_string_literal: true

require "test_helper"

# Which session defaults are equal, and what is known of settings made by statements.
class PostgresSessionDefaultsTest < Minitest::Test
  Connection = Struct.new(:log) do
    def exec(sql) = log << sql

    def set_client_encoding(name) = log << [:encoding, name]
  end

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @empty = NeverBlock::Postgres::SessionDefaults::EMPTY
  end

  def test_equal_statements_make_equal_session_defaults
    one, other = Array.new(2) { NeverBlock::Postgres::SessionDefaults.new(["SET a TO 1"], {"a" => "1"}) }
    assert_equal [true, true, true], [one == other, one.eql?(other), one.hash == other.hash]
    refute_equal one, @empty
    refute_equal one, one.with_encoding("LATIN1")
    refute_equal one, "SET a TO 1"
  end

  # Each statement looks for a connection with its own defaults, and comparing the same object is fast.
  def test_the_same_change_makes_the_same_object
    assert_same @empty.with("SET a TO 1", "a", "1"), @empty.with("SET a TO 1", "a", "1")
    assert_same @empty.with_encoding("UTF8"), @empty.with_encoding("UTF8")
  end

  def test_hundreds_of_changes_are_forgotten
    first = @empty.with("SET a TO -1", "a", "-1")
    200.times { |n| @empty.with("SET a TO #{n}", "a", n.to_s) }
    again = @empty.with("SET a TO -1", "a", "-1")
    refute_same first, again
    assert_equal first, again
  end

  def test_a_setting_that_has_its_value_is_not_set_again
    one = @empty.with("SET a TO 1", "a", "1")
    assert_same one, one.with("SET a = 1", "a", "1")
    assert_equal ["SET a TO 1", "SET a TO 2"], one.with("SET a TO 2", "a", "2").statements
    assert @empty.set?("b", nil), "it has the server's default"
    refute @empty.set?(nil, nil)
  end

  def test_the_last_of_equal_statements_counts
    one = @empty.with("SET a TO 1", "a", "1").with("SET a TO 2", "a", "2").with("SET a TO 1", "a", "1")
    assert_equal [["SET a TO 2", "SET a TO 1"], {"a" => "1"}], [one.statements, one.settings]
  end

  def test_a_session_authorization_resets_the_role
    one = @empty.with("SET ROLE r", "role", "r").with("SET SESSION AUTHORIZATION u", "session_authorization", "u")
    assert_equal({"session_authorization" => "u"}, one.settings)
  end

  # It may have changed any setting.
  def test_a_statement_that_is_no_plain_set
    one = @empty.with("SET a TO 1", "a", "1").with("select set_up()")
    assert_empty one.settings
    assert one.sets?(["b"])
    refute one.set?("b", nil)
    refute @empty.with("SET a TO 1", "a", "1").sets?(["b"])
    assert @empty.with("SET a TO 1", "a", "1").sets?(%w[b a])
    assert @empty.with("RESET ALL").sets?(["b"])
  end

  def test_they_are_applied_in_order_after_the_encoding
    connection = Connection.new([])
    @empty.with("SET a TO 1", "a", "1").with("SET b TO 2", "b", "2").with_encoding("LATIN1").apply(connection)
    assert_equal [[:encoding, "LATIN1"], "SET a TO 1", "SET b TO 2"], connection.log
  end
end
