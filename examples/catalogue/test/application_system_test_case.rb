# frozen_string_literal: true

ENV["RAILS_ENV"] = "test"
require_relative "../config/boot"
require_relative "../config/environment"
require "rails/test_help"

ActiveRecord::Schema.verbose = false
load File.expand_path("../db/schema.rb", __dir__)

# Without a browser: nothing here needs JavaScript.
class ApplicationSystemTestCase < ActionDispatch::SystemTestCase
  driven_by :rack_test
  self.use_transactional_tests = false # pages are purged after commits

  def setup
    Product.delete_all
    load Rails.root.join("db/seeds.rb")
    NeverBlock::Cache.purge_tag("products", *Product.ids.map { |id| "product-#{id}" })
    Rails.cache.clear
    ApplicationController.calls.clear
  end

  private

  def calls(name) = ApplicationController.calls[name].value

  # A browser of its own.
  def as_visitor(&)
    @visitors = @visitors.to_i + 1
    using_session("visitor #{@visitors}", &)
  end

  def html_of(path)
    visit path
    page.html
  end

  def log_in(name)
    visit "/session/new"
    fill_in "name", with: name
    click_on "Log in"
    true
  end

  def cookie = page.driver.browser.rack_mock_session.cookie_jar.for(URI(page.current_url))

  # A request without a browser.
  def get(path, headers = {})
    status, headers, body = Rails.application.call(Rack::MockRequest.env_for("http://example.org#{path}", headers))
    text = +""
    body.each { |chunk| text << chunk }
    [status, headers, text]
  ensure
    body.close if body.respond_to?(:close)
  end
end
