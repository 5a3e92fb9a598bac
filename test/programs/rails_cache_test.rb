# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "support/rails_app"
require "net/http"

# NeverBlock::Cache in a Rails app, by `config.middleware.use`: inside of sessions, cookies and the executor.
class RailsCacheTest < Minitest::Test
  CONTROLLER = <<~RUBY
    class ReportsController < ActionController::Base
      @calls = Concurrent::AtomicFixnum.new
      class << self
        attr_reader :calls
      end
      before_action { self.class.calls.increment }

      # What the reports of the demo do: a slow query, for everybody.
      def show
        expires_in 60, public: true
        seconds = Note.connection.select_value("select 0.3 from pg_sleep(0.3)")
        render plain: "report of \#{seconds} s, call \#{self.class.calls.value}"
      end

      def visit
        expires_in 60, public: true
        session[:visits] = session[:visits].to_i + 1
        render plain: "visit \#{session[:visits]}"
      end

      def chosen
        expires_in 60, public: true
        cookies[:choice] = params[:choice] if params[:choice]
        render plain: "choice"
      end

      def form
        expires_in 60, public: true
        render inline: "<%= form_with(url: '/count') { |form| form.submit } %>"
      end

      def tenant
        expires_in 60, public: true
        render plain: "of \#{Current.visitor.inspect}"
      end

      def calls = render(plain: self.class.calls.value)

      def connections
        pool = ActiveRecord::Base.connection_pool.stat
        render plain: pool.values_at(:busy, :waiting).join(" ")
      end
    end
  RUBY

  def test_the_cache_inside_of_sessions
    reason = NeverBlockTest::RailsApp.missing and skip reason
    NeverBlockTest::RailsApp.open do |app|
      app.write("app/controllers/reports_controller.rb", CONTROLLER)
      app.write("config/initializers/cache.rb", <<~RUBY)
        tenant = Class.new do
          def initialize(app) = @app = app

          def call(env) = Current.set(visitor: env["QUERY_STRING"][/tenant=(\\w+)/, 1]) { @app.call(env) }
        end
        Rails.application.config.middleware.use tenant
        Rails.application.config.middleware.use NeverBlock::Cache, store: "memory:16m", details: true
      RUBY
      routes = app.read("config/routes.rb")
      app.write("config/routes.rb", routes.sub("draw do\n", %(draw do\n  get "reports/:action", controller: "reports"\n)))
      app.run("bin/rails", "db:prepare")
      app.serve do |served|
        @served = served
        a_report_is_fetched_once
        connections_are_returned
        sessions_belong_to_one_client
        cookies_belong_to_one_client
        forms_belong_to_one_client
        a_tenant_of_outer_middleware_is_kept
        code_is_reloaded
        served.stop(:INT)
      end
    end
  end

  private

  def a_report_is_fetched_once
    get("/reports/calls") # loads the app
    bodies = Array.new(100) { Thread.new { get("/reports/show").body } }.map(&:value)
    assert_equal ["report of 0.3 s, call 2"], bodies.uniq
    assert_match(/hit/, get("/reports/show")["cache-status"])
    assert_nil get("/reports/show")["set-cookie"]
  end

  def connections_are_returned
    20.times { |n| assert_match(/report/, get("/reports/show?n=#{n}").body) }
    @served.until_true("no busy connection") { get("/reports/connections").body == "0 0" }
  end

  def sessions_belong_to_one_client
    answers = Array.new(20) { Thread.new { get("/reports/visit") } }.map(&:value)
    assert_equal ["visit 1"], answers.map(&:body).uniq
    cookies = answers.map { |answer| answer["set-cookie"][/\A[^;]+/] }
    assert_equal 20, cookies.uniq.size
    assert_equal "visit 2", get("/reports/visit", "Cookie" => cookies.first).body
    assert_equal "visit 1", get("/reports/visit").body
  end

  def cookies_belong_to_one_client
    2.times { |n| assert_match(/\Achoice=red#{n};/, get("/reports/chosen?choice=red#{n}")["set-cookie"]) }
    2.times { assert_match(/\Achoice=blue;/, get("/reports/chosen?choice=blue")["set-cookie"]) }
    2.times { assert_nil get("/reports/chosen")["set-cookie"] }
    assert_match(/hit/, get("/reports/chosen")["cache-status"])
  end

  def forms_belong_to_one_client
    answers = Array.new(3) { get("/reports/form") }
    assert_equal 3, answers.map { |answer| answer.body[/authenticity_token" value="([^"]+)/, 1] }.uniq.size
    answers.each { |answer| assert answer["set-cookie"], "the token is in the session" }
  end

  # The fetch would run without.
  def a_tenant_of_outer_middleware_is_kept
    2.times { assert_equal 'of "a"', get("/reports/tenant?tenant=a").body }
    assert_includes get("/reports/tenant?tenant=a")["cache-status"], "Current.visitor"
    2.times { assert_equal "of nil", get("/reports/tenant").body }
    assert_match(/hit/, get("/reports/tenant")["cache-status"])
  end

  def code_is_reloaded
    assert_equal "0 0", get("/reports/connections").body
    2.times { |n| assert_match(/call/, get("/reports/show?again=#{n}").body) }
  end

  def get(path, headers = {})
    Net::HTTP.start("localhost", @served.port, read_timeout: 60) { |http| http.get(path, headers) }
  end
end
