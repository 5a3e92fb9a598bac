# frozen_string_literal: true

require "test_helper"

# Settings of one transaction, as statements.
class PostgresLocalSettingsTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_values_are_quoted
    {
      {role: "tenant_7"} => "SET LOCAL role TO 'tenant_7'", {"app.tenant" => 7} => "SET LOCAL app.tenant TO '7'",
      {"app.name" => "it's"} => "SET LOCAL app.name TO 'it''s'", {"app.text" => "a\\b"} => "SET LOCAL app.text TO E'a\\\\b'"
    }.each { |settings, sql| assert_equal [sql], statements(settings) }
  end

  def test_each_part_of_a_list_is_quoted
    assert_equal ["SET LOCAL search_path TO 'tenant 7', 'public'"], statements({search_path: ["tenant 7", "public"]})
    assert_equal ["SET LOCAL search_path TO 'Tenant', 'public'"], statements({search_path: '"Tenant", public'})
    assert_equal ["SET LOCAL temp_tablespaces TO 'fast'"], statements({"temp_tablespaces" => "fast"})
  end

  def test_what_can_not_be
    assert_match(/needs settings/, refused({}))
    ["a b", "a;", "", "app.", "1a", "a'"].each { |name| assert_match(/#{Regexp.escape(name.inspect)} is not the name of a setting/, refused({name => 1})) }
    assert_match(/inside a transaction.*Put it around/, refused({role: "a"}, inside: true))
  end

  private

  def statements(...) = NeverBlock::Postgres::LocalSettings.statements(...)

  def refused(...) = assert_raises(NeverBlock::ConfigurationError) { statements(...) }.message
end
