# frozen_string_literal: true

require "test_helper"
require_relative "../../script/configuration_page"

# docs/configuration.md agrees with the directives' definitions.
class ConfigurationPageTest < Minitest::Test
  def test_the_page_is_current
    assert_equal ConfigurationPage.new.to_s, File.read(ConfigurationPage::PATH), "rake configuration writes it"
  end

  def test_it_has_every_directive_and_setting
    page = ConfigurationPage.new.to_s
    NeverBlock::Server::Directives::ALL.each_key { |name| assert_includes page, "\n### #{name}\n" }
    NeverBlock::Server::Directives::SETTINGS.each_value do |directive, setting|
      assert_includes page, "`#{setting.name}`" if setting.keyword
      assert_includes page, "```ruby\n#{directive.example}\n```"
    end
  end
end
