require "test_helper"
require "net/http"

# A browser without pages: the least that Capybara needs to start a server.
class BareBrowser < Capybara::Driver::Base
  attr_reader :app, :html, :current_url

  def initialize(app)
    super()
    @app = app
  end

  def needs_server? = true

  def visit(address)
    @current_url = address
    @html = Net::HTTP.get(URI(address))
  end

  def find_css(_selector, **) = []

  def find_xpath(_path, **) = [] # turbo-rails looks for streams

  def reset!
    @current_url = @html = nil
  end
end

Capybara.register_driver(:bare) { |app| BareBrowser.new(app) }

class ApplicationSystemTestCase < ActionDispatch::SystemTestCase
  driven_by :bare
end
