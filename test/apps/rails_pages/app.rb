# frozen_string_literal: true

# A Rails app without files, for the tests of pages in the path: checks.rb. The database is that of PGHOST.
require "action_controller/railtie"
require "active_record/railtie"
require "neverblock"

class PagesApp < Rails::Application
  config.root = __dir__
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "0" * 64
  config.hosts = nil
  config.consider_all_requests_local = false
  config.action_dispatch.show_exceptions = :all
  config.action_controller.perform_caching = false
  config.load_defaults Rails::VERSION::STRING.to_f
end

ENV["DATABASE_URL"] = "postgresql:///postgres"
PagesApp.initialize!

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :events, force: true do |table|
    table.string :title, null: false
    table.uuid :code, null: false
    table.timestamptz :happened_at, null: false
    table.timestamps
    table.index [:created_at, :id]
  end
end

class Event < ActiveRecord::Base
end

# Of a CMS: its helper is page_path.
class PagesController < ActionController::Base
  def show = head(:ok)
end

class UsersController < ActionController::Base
  include NeverBlock::Pages

  class << self
    attr_accessor :calls
  end
  self.calls = 0

  USERS = (1..45).map { |number| "user #{number}" }.freeze

  def index
    UsersController.calls += 1
    response.headers["Link"] = "</a.css>; rel=preload" if params[:preload]
    @users = page_of(USERS.grep(/#{Regexp.escape(params[:q].to_s)}/), per: 20)
    expires_in 60, public: true
    respond_to do |format|
      format.html { render inline: "<%= link_page_tags %><%= @users.to_a.join(',') %><%= page_links @users %>|<%= page_path(7) %>|<%= path_to_page(2) %>|<%= url_to_page(1) %>" }
      format.xml { render xml: "<users>#{@users.size}</users>" }
      format.json { render json: @users.items }
    end
  end

  def search = render(plain: page_of(USERS, per: 10).first + " " + helpers.path_to_page(1) + " " + helpers.path_to_page(3))
end

class Admin; end

class Admin::UsersController < UsersController
end

class QuietUsersController < UsersController
  page_options redirect: false, keep: [:q], headers: false
end

class CommentsController < ActionController::API
  include NeverBlock::Pages

  def index = render(json: page_of((1..5).to_a, per: 2, count: false).items)
end

class EventsController < ActionController::Base
  include NeverBlock::Pages

  def index
    events = page_of(Event.order(*order), by: order, per: 3)
    render inline: "<%= events.map(&:title).join(',') %> <%= page_links %><%= link_page_tags %>", locals: {events:}
  end

  private

  def order = {"code" => %i[code id], "time" => %i[happened_at id]}.fetch(params[:order].to_s, %i[created_at id])
end

# What pagy's objects have.
Pagy = Struct.new(:count, :page, :limit, :last, :next, :previous)

class NotesController < ActionController::Base
  include NeverBlock::Pages

  def index
    number = number_of_page
    @pagy = Pagy.new(30, number, 10, 3, (number + 1 if number < 3), (number - 1 if number > 1))
    link_to_pages(@pagy)
    render inline: "<%= page_links(@pagy, label: 'N <b>', previous: '<', following: '>', class: 'notes') %>"
  end
end

class LooseController < ActionController::Base
  include NeverBlock::Pages

  def index = render(plain: page_of([1, 2], per: 1).to_a.join)
end

module Shop
  class Engine < Rails::Engine
    # Without files too; Rails would look for a folder with lib/.
    def self.find_root(_) = Pathname(__dir__)

    isolate_namespace Shop
  end
end

class Shop::ItemsController < ActionController::Base
  include NeverBlock::Pages

  def index = render(plain: [page_of((1..5).to_a, per: 2).to_a.join(","), helpers.path_to_page(1), helpers.path_to_page(3)].join(" "))
end

Shop::Engine.routes.draw do
  concern :pages, NeverBlock::Pages::Routes
  resources :items, concerns: :pages
end

PagesApp.routes.draw do
  concern :pages, NeverBlock::Pages::Routes
  concern :keyset_pages, NeverBlock::Pages::Routes.new(keyset: true)

  root to: "users#index"
  resources :pages, only: :show
  resources :users, concerns: :pages do
    get :search, on: :collection
    concerns :pages, action: :search
  end
  resources :events, concerns: [[:keyset_pages]]
  resources :notes, concerns: :pages, only: :index
  namespace(:admin) { resources :users, concerns: :pages }
  resources :quiet_users, concerns: :pages, path: "quiet"
  resources :posts, shallow: true do
    resources :comments, concerns: :pages
  end
  resources :comments, only: :index, concerns: :pages
  scope "(:locale)", locale: /de|en/ do
    resources :people, controller: "users", concerns: :pages, path_names: {new: "neu"}, format: false
  end
  scope ":tenant" do
    resources :sheep, controller: "users" do
      concerns :pages, path: "leaves"
    end
  end
  resources :loose
  mount Shop::Engine, at: "/shop"
end
