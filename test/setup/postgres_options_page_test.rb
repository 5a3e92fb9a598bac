# frozen_string_literal: true

require "test_helper"
require_relative "../../script/postgres_options_page"

# docs/postgres.md agrees with the options' definitions.
class PostgresOptionsPageTest < Minitest::Test
  def test_the_page_is_current
    assert_equal PostgresOptionsPage.new.to_s, File.read(PostgresOptionsPage::PATH), "rake postgres_options writes it"
  end

  def test_it_has_every_option_with_its_default_and_an_example
    table = PostgresOptionsPage.new.table
    NeverBlock::Postgres::Options::ALL.each_value { |option| assert_includes table, "`#{option.key ? option.yaml : option.example}`) |" }
    {connections: "`12`", multiplex: "`reads`", checkout_timeout: "`5`", idle_timeout: "no limit; with Active Record `300`", shareable_functions: "none"}.each do |name, default|
      assert_match(/^\| `#{name}`.*? \| #{Regexp.escape(default)} \| /, table)
    end
  end

  def test_the_text_around_it_stays
    page = PostgresOptionsPage.new("before\n#{PostgresOptionsPage::BEGINNING}old#{PostgresOptionsPage::ENDING}after\n").to_s
    assert page.start_with?("before\n#{PostgresOptionsPage::BEGINNING}| option |")
    assert page.end_with?("#{PostgresOptionsPage::ENDING}after\n")
    assert_raises(ArgumentError) { PostgresOptionsPage.new("no markers") }
  end
end
