# frozen_string_literal: true

# The controller of attack_checks.rb: filters find something out and keep it in an instance variable, or the response is
# unusual.
require_relative "../app"

class AttacksController < ApplicationController
  rescue_from(IOError) { |error| render plain: "rescued #{error.message}" }

  before_action { instance_exec(&FILTERS[action_name]) if FILTERS.key?(action_name) }
  after_action(only: :rewritten) { response.body = "#{response.body} for #{params[:n] || request.headers["X-Client"]}" }
  around_action(only: :timed) do |_, action|
    action.call
    response.headers["x-time"] = "#{response.body.bytesize} #{SecureRandom.hex(4)}"
  end

  # What filters find out.
  FILTERS = {
    "taken" => -> { @kept = session.delete(:name) },
    "begun" => -> { @kept = session[:cart] ||= SecureRandom.hex(4) },
    "given" => -> { @kept = cookies[:visitor] || (cookies[:visitor] = SecureRandom.hex(4)) },
    "given_signed" => -> { @kept = cookies.signed[:visitor] ||= SecureRandom.hex(4) },
    "token" => -> { @kept = form_authenticity_token },
    "found" => -> { @kept = cookies.find { |name, _| name == "name" }&.last },
    "chosen" => -> { @kept = session.to_h.find { |name, _| name == "name" }&.last },
    "raw_cookie" => -> { @kept = request.headers["Cookie"] },
    "exists" => -> { @kept = !!request.session.exists? },
    "tenant" => -> { @kept = request.headers["X-Tenant"] },
    "shared_tenant" => -> { @kept = request.headers["X-Tenant"] },
    "owned_tenant" => -> { @kept = request.headers["X-Tenant"] },
    "beta" => -> { @kept = request.headers.key?("X-Beta") },
    "webp" => -> { @kept = request.headers["Accept"].to_s.include?("image/webp") },
    "usual" => -> { [request.user_agent, request.remote_ip, request.headers["X-Turbo-Request-Id"], request.referer, request.headers["Traceparent"]] },
    "alerted" => -> { flash.now[:alert] = "alert" if params[:alert] || request.headers["X-Client"] == "alerted" },
    "organized" => -> { AttackCurrent.organization = Organization.new(request.env["test.organization"]) }
  }.freeze

  KEPT = FILTERS.keys - %w[usual alerted shared_tenant owned_tenant organized]

  caches_action(*KEPT, :usual, :alerted, :compressed, :accepts, :has_header, :each_header, :mixed, :hijacked, :rewritten, :timed, :data,
    :rescued, :inner, :outer, :chunks, :organized, :exists_itself, expires_in: 60)
  caches_action :shared_tenant, expires_in: 60, shared: true
  caches_action :owned_tenant, expires_in: 60, per: -> { 1 }
  caches_action :parameters, expires_in: 60, vary: -> { params[:a] }
  caches_action :texts, expires_in: 60, vary: -> { [request.user_agent, params[:a]] }
  caches_action :times, expires_in: 60, vary: -> { ApplicationController.calls["time"] }
  caches_action :odd, expires_in: 60, vary: -> { ODD.fetch(params[:odd]).call }
  caches_action :tags, expires_in: 60, tags: -> { ["tag-#{params[:id]}", *(["x"] * params[:n].to_i).each_with_index.map { |x, n| "#{x}#{n}" }] }
  caches_action :tag, expires_in: 60, tags: -> { [params[:id].to_s] }
  caches_action :inner_owned, expires_in: 60, per: -> { session[:name] }

  TIME = Time.utc(2026, 1, 1)
  ODD = {"a" => -> { TIME }, "b" => -> { TIME + 0.001r }, "c" => -> { TIME.to_datetime }, "d" => -> { TIME.to_datetime + 1.0 / 864_000 },
         "e" => -> { TIME.in_time_zone("UTC") }, "f" => -> { TIME.in_time_zone("UTC") + 0.001r }, "g" => -> { 5.minutes }, "h" => -> { 1..2 },
         "i" => -> { "1..2" }, "j" => -> { [1, [2]] }, "k" => -> { [[1], 2] }, "l" => -> { ["1", "2"] }, "m" => -> { {a: 1} }, "n" => -> { Set[1] }}.freeze

  KEPT.each { |name| define_method(name) { page(@kept) } }
  def shared_tenant = page(@kept)
  def owned_tenant = page(@kept)
  %i[parameters texts odd tags tag usual rewritten timed].each { |name| define_method(name) { page } }
  def alerted = page(flash[:alert])
  def accepts = page(request.headers["Accept"].to_s.include?("image/webp"))
  def has_header = page(request.headers.key?("X-Beta"))
  def each_header = page(request.headers.find { |name, _| name == "HTTP_X_BETA" }&.last)
  def exists_itself = page(!!request.session.exists?)
  def organized = page(AttackCurrent.organization.id)

  def compressed
    return page unless request.get_header("HTTP_ACCEPT_ENCODING").to_s.include?("gzip")
    response.headers["content-encoding"] = "gzip"
    response.headers["vary"] = "Accept-Encoding"
    page ActiveSupport::Gzip.compress("compressed")
  end

  def mixed
    ApplicationController.calls["mixed"] += 1
    self.response_body = ["größe", "\xff".b]
  end

  def chunks
    ApplicationController.calls["chunks"] += 1
    self.response_body = %w[a b c]
  end

  def hijacked
    response.headers["rack.hijack"] = ->(io) { io.close }
    page
  end

  def data
    ApplicationController.calls["data"] += 1
    send_data "\xff\x00größe".b, filename: "data.bin", type: "application/octet-stream"
  end

  def rescued
    ApplicationController.calls["rescued"] += 1
    raise IOError, "no report"
  end

  def inner_owned = page(session[:name])

  # Another action as a part of this one.
  def outer
    ApplicationController.calls["outer"] += 1
    env = request.env.except("action_controller.instance", "action_dispatch.request.path_parameters", "action_dispatch.request.formats")
    response = self.class.action(:inner_owned).call(env)
    body = +""
    response[2].each { |chunk| body << chunk }
    render plain: "outer #{body}"
  end

  def sign
    session[:name] = params[:name]
    head :ok
  end

  private

  Organization = Struct.new(:id) do
    def to_param = id.to_s

    def cache_key_with_version = "organizations/#{id}-#{SecureRandom.hex(4)}"

    def cache_key = "organizations/#{id}"
  end
  private_constant :Organization
end

# A login of Devise: its methods are those of each mapping, and the filter keeps what they return.
module Devise
  def self.mappings = {customer: Object.new}
end

class CustomersController < ApplicationController
  before_action { current_customer }
  caches_action :show, expires_in: 60, shared: true

  def show = page(current_customer)

  private

  def current_customer = @current_customer ||= params[:id]
end

class AttackCurrent < ActiveSupport::CurrentAttributes
  attribute :organization, :user_agent
end

ActionCachingApp.routes.draw do
  get "customer", to: "customers#show"
  AttacksController.action_methods.each { |name| get "attacks/#{name}", to: "attacks##{name}" }
end
