# frozen_string_literal: true

# The controllers of crossing_checks.rb.
require_relative "../app"

module CrossingsHelper
  def visitor = request.cookies["name"]
end

# Each action shows something of the client. Most of the names in the paths say what.
class CrossingsController < ApplicationController
  helper CrossingsHelper
  layout -> { (action_name == "token") ? "crossings" : false }

  before_action(only: :kept) { @name = cookies[:name] }
  before_action(only: :rack_kept) { @name = request.cookies["name"] }
  before_action(only: :signed) { @name = cookies.signed[:name] }
  before_action(only: :jar_built) { cookies[:other] }
  before_action(only: :empty_session) { session[:name] }
  before_action(only: :nonce_kept) do
    request.content_security_policy_nonce_generator = ->(_) { SecureRandom.hex(4) }
    request.content_security_policy_nonce
  end
  before_action(only: :person) { PersonCurrent.user = params[:name] || cookies[:name] }
  before_action(only: :region) { response.headers["x-region"] = request.headers["X-Region"].to_s }
  before_action(only: :silent) { response.cache_control[:no_store] = true if params[:quiet] }
  after_action(only: :after) { response.headers["x-after"] = SecureRandom.hex(4) }

  caches_action :kept, :rack_kept, :signed, :rack_cookies, :cookie_header, :agent, :address, :accept_language, :forwarded,
    :empty_session, :nonce_kept, :partial, :token, :script, :tokenless, :no_store, :no_cache, :private_header, :region,
    :jar_writes, :framed, :silent, :after, :child, expires_in: 60
  caches_action :jar_built, :person, :authorization, :session_id, :masked, expires_in: 60, shared: true
  caches_action :mobile, expires_in: 60, vary: -> { request.user_agent.to_s.include?("Mobile") }
  caches_action :blank, expires_in: 60, per: -> { params[:user].to_s }
  caches_action :list, expires_in: 60, per: -> { [params[:user]] }
  caches_action :sets, expires_in: 60, per: -> { 1 }
  caches_action :owned_form, expires_in: 60, per: -> { 1 }
  caches_action :aged, :fresh, :logged
  caches_action :tagged, expires_in: 60, tags: -> { ["crossings"] }

  def kept = page(@name)
  alias_method :rack_kept, :kept
  alias_method :signed, :kept
  def rack_cookies = page(request.cookies["name"])
  def cookie_header = page(request.headers["Cookie"])
  def agent = page(request.user_agent)
  def address = page(request.remote_ip)
  def accept_language = page(request.get_header("HTTP_ACCEPT_LANGUAGE"))
  def forwarded = page(request.headers["X-Forwarded-For"])
  def empty_session = page
  def nonce_kept = page(request.content_security_policy_nonce)
  def partial = ApplicationController.calls["partial"] += 1
  def token = ApplicationController.calls["token"] += 1

  def script
    ApplicationController.calls["script"] += 1
    request.content_security_policy_nonce_generator = ->(_) { SecureRandom.hex(4) }
  end

  def tokenless
    self.allow_forgery_protection = false
    ApplicationController.calls["tokenless"] += 1
    render inline: "<%= csrf_meta_tags %><%= form_with(url: '/x') { } %>"
  end

  def no_store = (response.headers["Cache-Control"] = "no-store") && page
  def no_cache = expires_now && page
  def private_header = (response.headers["Cache-Control"] = "private, max-age=60") && page

  def region
    response.headers["x-region"] = "in #{response.headers["x-region"]}"
    page
  end

  def jar_writes = (cookies[:seen] = "1") && page
  def framed = response.headers.delete("X-Frame-Options") && page
  def silent = page
  def after = page
  def child = page(Thread.new { request.cookies["name"] }.value)
  def jar_built = page(request.cookie_jar[:name])
  def person = page(PersonCurrent.user)
  def authorization = page(request.authorization)
  def session_id = page(request.session.id)
  def masked = page(masked_authenticity_token)
  def mobile = page(request.user_agent.to_s.include?("Mobile"))
  def blank = page(cookies[:name])
  alias_method :list, :blank
  def sets = (cookies[:seen] = "1") && page

  def owned_form
    ApplicationController.calls["owned_form"] += 1
    render inline: "<%= form_with(url: '/x') { } %>"
  end

  def aged = expires_in(5.minutes, public: true, stale_if_error: 1.hour, "s-maxage": 600) && page

  def fresh
    expires_in 1.minute
    page if stale?(etag: "v1", last_modified: Time.utc(2026))
  end

  def logged = expires_in(60) && page(session[:name])
  def tagged = expires_in(60, public: true) && page

  def sign
    cookies.signed[:name] = params[:name]
    session[:name] = params[:name]
    head :ok
  end

  private

  def current_user = PersonCurrent.user
end

class ApplicationCurrent < ActiveSupport::CurrentAttributes; end

class PersonCurrent < ApplicationCurrent
  attribute :user
end

class CrossingApi < ActionController::API
  include NeverBlock::ActionCaching

  caches_action :show, expires_in: 60

  def show
    fresh_when(etag: "api")
    render json: {calls: ApplicationController.calls["api"] += 1} unless performed?
  end
end

ActionCachingApp.routes.disable_clear_and_finalize = true
ActionCachingApp.routes.draw do
  CrossingsController.action_methods.each { |name| get "crossings/#{name}", to: "crossings##{name}" }
  get "api", to: CrossingApi.action(:show)
end
