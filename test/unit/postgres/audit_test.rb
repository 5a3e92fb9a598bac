# frozen_string_literal: true

require "test_helper"

# What an audit asks, and how it tells of a difference. With a server: test/integration/postgres/audit_test.rb.
class PostgresAuditTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_custom_settings_are_asked_for_by_name
    sql = audit("app.tenant", "a.b$.c").sql
    ["app.tenant", "a.b$.c"].each { |name| assert_includes sql, "union all select 'setting #{name}', nullif(pg_catalog.current_setting('#{name}', true), '')" }
    assert_predicate sql, :frozen?
  end

  def test_a_name_that_is_no_custom_setting_s
    ["tenant", "app.", "app.tenant; drop table t", "app.it's", "1.a", "a\nb.c", ""].each do |name|
      error = assert_raises(NeverBlock::ConfigurationError) { audit(name) }
      assert_equal "audit_settings: #{name.inspect} is not the name of a custom setting: it must have a prefix, as in \"app.tenant\"", error.message
    end
  end

  def test_a_difference_is_told_in_words
    before = {"setting work_mem" => "4MB", "search_path" => "public"}
    assert_nil audit.difference(before, before.dup)
    assert_equal 'setting work_mem: "4MB", then "64MB"', audit.difference(before, {**before, "setting work_mem" => "64MB"})
    assert_equal 'cursor c: nil, then ""', audit.difference(before, {**before, "cursor c" => ""})
    assert_equal 'search_path: "public", then nil', audit.difference(before, before.except("search_path"))
  end

  private

  def audit(*settings) = NeverBlock::Postgres::Audit.new(settings:)
end
