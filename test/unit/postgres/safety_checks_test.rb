# frozen_string_literal: true

require "test_helper"

# Settings that a new connection must have, so that SQL means what it seems to.
class PostgresSafetyChecksTest < Minitest::Test
  Connection = Struct.new(:parameters, :backend_pid) do
    def parameter_status(name) = parameters[name]
  end
  SAFE = {"standard_conforming_strings" => "on", "client_encoding" => "UTF8"}.freeze

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_a_usual_connection_passes
    assert_nil check
    assert_nil check(search_path: '"$user", public, shop')
    assert_nil check(search_path: "pg_catalog, public")
    assert_nil check({"client_encoding" => "EUC_JP"})
  end

  def test_strings_must_conform_to_the_standard
    assert_match(/standard_conforming_strings is "off"/, refused({"standard_conforming_strings" => "off"}))
  end

  def test_encodings_in_which_a_quote_may_be_half_of_a_character
    %w[SJIS big5 Shift_JIS_2004 GB18030 WINDOWS-932].each { |name| assert_match(/client_encoding is #{name}/, refused({"client_encoding" => name})) }
  end

  def test_a_search_path_must_not_replace_built_in_functions
    assert_match(/could replace built-in functions/, refused(search_path: "shop, pg_catalog"))
    assert_match(/names pg_temp_3, which belongs to one session/, refused(search_path: 'public, "pg_temp_3"'))
  end

  def test_a_pooler_must_be_declared
    connection = Connection.new(SAFE, 7)
    assert_nil NeverBlock::Postgres::SafetyChecks.no_pooler(connection, 7)
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Postgres::SafetyChecks.no_pooler(connection, 8) }
    assert_match(/the server's process is 8, but 7 was announced. Set its pool mode/, error.message)
  end

  private

  def check(changed = {}, search_path: "public") = NeverBlock::Postgres::SafetyChecks.check(Connection.new({**SAFE, **changed}), search_path)

  def refused(...) = assert_raises(NeverBlock::ConfigurationError) { check(...) }.message
end
