# frozen_string_literal: true

# The controllers of response_checks.rb: ways to answer, and ways to be an action.
require_relative "../app"

class ResponsesController < ApplicationController
  etag { current_user if action_name == "tagged_by_user" }
  layout false
  caches_action :streamed, :redirected, :created, :empty, :none, :nothing, :twice, :typed, :fragments, :implicit, :missing_action, :inherited,
    :resets, :symbol, expires_in: 60
  caches_action :tagged_by_user, :waiting, expires_in: 60, shared: true
  before_action(only: :resets) { reset_session if params[:reset] }
  around_action(only: :waiting) { |_, action| Timeout.timeout(request.env["test.limit"]) { action.call } }

  def streamed = render(stream: true)
  def redirected = count && redirect_to("/pages/plain")
  def created = count && render(plain: "created", status: :created)
  def empty = count && head(:ok)
  def none = count && head(:no_content)
  def nothing = count && render(plain: nil)
  def twice = count && render(plain: "one") && render(plain: "two")
  def fragments = nil
  def inherited = page(self.class.name)
  def resets = page
  def symbol = page
  def waiting = page

  def typed
    count
    respond_to do |format|
      format.html { render plain: "html" }
      format.json { render json: {format: "json"} }
      format.any(:js) { render js: "js" }
    end
  end

  def tagged_by_user
    count
    render plain: "tagged" if stale?(etag: "v1")
  end

  private

  def count = ApplicationController.calls[action_name] += 1
  alias_method :page_number, :count

  def current_user = params[:user]
end

class InheritingController < ResponsesController
  caches_action :own, expires_in: 60
  skip_before_action :verify_authenticity_token, raise: false
  def own = page
end

class OverridingController < ResponsesController
  def inherited = page(session[:name])
  def action_missing(name) = page(name)
end

class LiveController < ApplicationController
  include ActionController::Live

  caches_action :show, expires_in: 60

  def show
    ApplicationController.calls["live"] += 1
    response.stream.write("live")
  ensure
    response.stream.close
  end
end

ActionCachingApp.routes.draw do
  [ResponsesController, InheritingController, OverridingController].each do |controller|
    (controller.action_methods + %w[missing_action implicit]).each do |name|
      get "#{controller.controller_path}/#{name}", to: "#{controller.controller_path}##{name}"
    end
  end
  get "live", to: "live#show"
end
