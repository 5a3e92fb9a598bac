# frozen_string_literal: true

# The demo's Rails app, in one file: an action that waits in the database. The adapter is set in config/database.yml.
#
#   GET /anything?wait=0.5    after half a second: "you asked for /anything"
#   GET /threads              how many Ruby threads have run that action so far
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "neverblock"

class DemoApp < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.logger = Logger.new($stdout) # of the process: it is shown where the app doesn't start
  config.log_level = :warn
  config.secret_key_base = "the demo's"
  routes.append do
    get "threads", to: "waits#threads"
    get ":page", to: "waits#show"
  end
end

class WaitsController < ActionController::Base
  THREADS = {}

  def show
    THREADS[Thread.current] = true
    sleeping = "select pg_sleep(#{Float(params.fetch(:wait))})"
    ActiveRecord::Base.with_connection { |connection| connection.select_value(sleeping) }
    render plain: "you asked for #{request.path}"
  end

  def threads = render(plain: THREADS.size)
end

run DemoApp.initialize!
