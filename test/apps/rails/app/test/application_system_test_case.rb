require "test_helper"
require "net/http"

# A browser without pages: what a driver needs so that Capybara starts a server.
class BareBrowser < Capybara::Driver::Base
  attr_reader :app, :html

  def initialize(app) = @app = app

  def needs_server? = true

  def visit(address) = @html = Net::HTTP.get(URI(address))

  def find_css(selector) = []

  def reset! = @html = nil
end

Capybara.register_driver(:bare) { |app| BareBrowser.new(app) }

class ApplicationSystemTestCase < ActionDispatch::SystemTestCase
  driven_by :bare
end
