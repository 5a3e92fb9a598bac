# frozen_string_literal: true

require "test_helper"
require_relative "../../script/from_puma_page"

# docs/from-puma.md agrees with the reader of Puma configurations.
class FromPumaPageTest < Minitest::Test
  def test_the_page_is_current
    assert_equal FromPumaPage.new.to_s, File.read(FromPumaPage::PATH), "rake from_puma writes it"
  end

  def test_it_has_every_word
    page = FromPumaPage.new.to_s
    NeverBlock::Server::FromPuma.rows.each { |row| assert_includes page, "| #{row.names.map { |name| "`#{name}`" }.join(", ")} |" }
  end
end
