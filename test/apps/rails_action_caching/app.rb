# frozen_string_literal: true

# A Rails app without files, for the tests of action caching: checks.rb. Its store is a folder, as of several workers.
require "action_controller/railtie"
require "tmpdir"
require "neverblock"

class ActionCachingApp < Rails::Application
  config.root = __dir__
  config.eager_load = false
  config.logger = Logger.new(StringIO.new)
  config.secret_key_base = "0" * 64
  config.hosts = nil
  config.consider_all_requests_local = false
  config.action_dispatch.show_exceptions = :none
  config.action_controller.perform_caching = true
  config.action_controller.allow_forgery_protection = true
  config.cache_store = :file_store, Dir.mktmpdir("neverblock-action-caching")
  config.load_defaults Rails::VERSION::STRING.to_f
  config.session_store :cookie_store, key: "s"
end
ActionCachingApp.initialize!
at_exit { FileUtils.rm_rf(Rails.cache.cache_path) }

# Each action counts its calls, and has a nonce in its body, so that a body of another user is seen.
class ApplicationController < ActionController::Base
  include NeverBlock::ActionCaching

  class << self
    def calls = @@calls ||= Hash.new(0) # standard:disable Style/ClassVars -- one for all controllers

    # Blocks that run in actions, by name.
    def steps = @@steps ||= {} # standard:disable Style/ClassVars
  end

  private

  def page(text = nil)
    calls = (ApplicationController.calls[action_name] += 1)
    instance_exec(&ApplicationController.steps[action_name]) if ApplicationController.steps.key?(action_name)
    render plain: "#{action_name} #{calls} #{text}" unless performed?
  end
end

# Pages without users.
class PagesController < ApplicationController
  before_action { response.headers["x-filter"] = SecureRandom.hex(4) }
  caches_action :plain, :streamed, :file, :failing, :cookie, :own, :error, :missing, :form, :nonce, :flashed, :reading, :jar,
    :raw, :vary, :validated, expires_in: 60
  caches_action :declared, :undeclared, :refused
  caches_action :tagged, expires_in: 60, tags: -> { ["pages", "page-#{params[:id]}"] }
  caches_action :chosen, expires_in: 60, if: -> { params[:draft].blank? }, unless: [:preview?, -> { params[:off] }]
  caches_action :short, expires_in: 0.05
  caches_action :noticed, expires_in: 60
  caches_action :varied, expires_in: 60, vary: -> { [params[:a].to_s.size, I18n.locale] }

  %i[plain tagged short varied own vary chosen].each { |name| define_method(name) { page } }

  def declared
    expires_in 60, public: true
    page
  end

  def undeclared = page

  private def preview? = request.headers["X-Preview"].present?

  def refused
    response.headers["cache-control"] = "no-store"
    page
  end

  def validated
    fresh_when(etag: "v1", last_modified: Time.utc(2026, 1, 2), public: true) and return
    page
  end

  def streamed
    page && nil
    self.response_body = Enumerator.new { |lines| lines << "streamed" }
  rescue AbstractController::DoubleRenderError
    self.response_body = Enumerator.new { |lines| lines << "streamed #{ApplicationController.calls["streamed"]}" }
  end

  def file
    ApplicationController.calls["file"] += 1
    send_file __FILE__
  end

  def failing
    ApplicationController.calls["failing"] += 1
    raise IOError, "no report"
  end

  def missing
    ApplicationController.calls["missing"] += 1
    head :not_found
  end

  def cookie
    response.set_header("set-cookie", "a=#{ApplicationController.calls["cookie"]}")
    page
  end

  def form
    ApplicationController.calls["form"] += 1
    render inline: "<%= form_with(url: '/x') { } %>"
  end

  def nonce
    page(request.content_security_policy_nonce || (request.env["action_dispatch.content_security_policy_nonce"] = "n"))
  end

  def flashed
    flash.now[:notice] = "hello"
    page(flash[:notice])
  end

  def noticed
    fresh_when(etag: "v1")
    page(flash[:notice]) unless performed?
  end

  def notify = redirect_to("/pages/noticed", notice: "saved by #{params[:id]}")

  def reading = page(session[:user])

  def jar = page(cookies[:a])

  def raw = page(request.session[:user])
end

class Current < ActiveSupport::CurrentAttributes
  attribute :user, :request_number
end

# Pages behind a login: the filter reads the session.
class UsersController < ApplicationController
  before_action :authenticate
  caches_action :board, :greeting, :direct, :current, :parts, :depends, expires_in: 60, shared: true
  caches_action :mine, expires_in: 60, per: -> { current_user }
  caches_action :unowned, expires_in: 60, per: -> {}
  caches_action :default, expires_in: 60
  skip_before_action :authenticate, only: :login

  def login
    session[:user] = params[:user]
    head :ok
  end

  def board = page(Current.request_number)

  def current = page(Current.user)

  def parts = page

  def depends
    response.headers["vary"] = "Accept, X-Region"
    page(request.headers["X-Region"])
  end

  def greeting = page(current_user)

  def direct = page(request.session[:user])

  def mine = page(session[:user])

  def unowned = page

  def default = page

  private

  def authenticate
    Current.user = current_user
    redirect_to "/users/login" unless current_user
  end

  def current_user = @user ||= session[:user]
end

ActionCachingApp.routes.draw do
  PagesController.action_methods.each do |name|
    get "pages/#{name}(/:id)", to: "pages##{name}"
    post "pages/#{name}", to: "pages##{name}"
  end
  UsersController.action_methods.each { |name| get "users/#{name}", to: "users##{name}" }
end
