# frozen_string_literal: true

# slow: it starts Rails (30 s)

require "test_helper"
require "support/rails_app"
require "support/web_socket"
require "json"
require "net/http"
require "yaml"

# The log lines of a Rails app about `adapter: neverblock_postgresql`, and its uses of PostgreSQL besides records.
class RailsPostgresTest < Minitest::Test
  CONTROLLER = <<~RUBY
    class PipelinesController < ActionController::Base
      def show
        %w[a b].each { |title| Note.create!(title:) }
        Current.visitor = "b"
        called = -> { NeverBlock.pipeline(-> { Note.count }, -> { Note.find_by(title: Current.visitor).title }, -> { Note.order(:id).pluck(:title).last }) }
        block = -> { NeverBlock.pipeline { [Note.async_count, Note.where(title: "a").load_async, Note.async_pluck(:title)] } }
        2.times { [block, called].each(&:call) } # by now all statements are known as fast
        count, found, titles = block.call
        render json: [[count, found.map(&:title), titles.size], called.call]
      end
    end
  RUBY

  # As `bin/rails generate active_record:multi_db` writes it. Forms without a token would have no session.
  SELECTOR = <<~RUBY
    Rails.application.configure do
      config.active_record.database_selector = {delay: 60.seconds}
      config.active_record.database_resolver = ActiveRecord::Middleware::DatabaseSelector::Resolver
      config.active_record.database_resolver_context = ActiveRecord::Middleware::DatabaseSelector::Resolver::Session
      config.action_controller.allow_forgery_protection = false
    end
  RUBY
  VISITORS = 12

  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  # One app for all, since making one takes seconds.
  def test_a_url_and_its_line_in_the_log_and_pipelines_and_action_cable_by_listen
    NeverBlockTest::RailsApp.open do |app|
      url = "neverblock-postgresql://#{app.postgres.user}@127.0.0.1:#{app.postgres.port}/shop_development?connections=4"
      app.write("config/cable.yml", "development:\n  adapter: postgresql\n")
      app.write("app/controllers/pipelines_controller.rb", CONTROLLER)
      app.write("config/routes.rb", app.read("config/routes.rb").sub(/^end/, "  get \"pipelines\", to: \"pipelines#show\"\nend"))
      app.run("bin/rails", "db:prepare", environment: {"DATABASE_URL" => url})
      File.write(File.join(app.folder, "log/development.log"), "")
      app.serve(environment: {"DATABASE_URL" => url}) do |served|
        asked = 0
        served.until_true("three in one go") do # on a busy machine, statements are known as fast later
          asked += 1
          assert_equal [[2 * asked, ["a"] * asked, 2 * asked], [2 * asked, "b", "b"]], JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/pipelines")))
          app.read("log/development.log").match?(/PIPELINE \d+ \(\d+\.\dms\)  3 in one go, .*: Note (Count|Load|Pluck), /)
        end
        sockets = Array.new(2) { NeverBlockTest::WebSocket.new(served.port, "/cable", origin: "http://localhost:#{served.port}") }
        identifier = {channel: "ChatChannel"}.to_json
        sockets.each do |socket|
          socket.send(command: "subscribe", identifier:)
          socket.until { |message| message["type"] == "confirm_subscription" }
        end
        3.times do |number|
          sockets[number % 2].send(command: "message", identifier:, data: {action: "speak", text: "hello #{number}"}.to_json)
          sockets.each { |socket| assert_equal "hello #{number}", socket.until { |message| message["message"].is_a?(Hash) }.dig("message", "text") }
        end
        listening = app.postgres.query("select count(*) from pg_stat_activity where query like 'LISTEN%'", database: "shop_development")
        assert_equal "1", listening
      ensure
        sockets&.each(&:close)
      end
      log = app.read("log/development.log")
      assert_match(/database primary: adapter neverblock_postgresql, 4 connections of this process, multiplex: reads, pipelined by libpq \d+\.\d+/, log)
      assert_equal 1, log.scan(/neverblock: connected to PostgreSQL \d/).size
    end
  end

  def test_the_database_selector_with_a_replica_that_lags
    with_a_replica do |app, standby|
      standby.query("select pg_wal_replay_pause()")
      app.serve do |served|
        seen = Array.new(VISITORS) { |number| Thread.new { visit(served, "note #{number}") } }.map(&:value)
        assert_equal Array.new(VISITORS) { |number| [true, "note #{number}"] }, seen, "each sees the own note at once, on the primary"
        assert_equal [], titles(served), "a visitor that has written nothing reads from the replica"
        standby.query("select pg_wal_replay_resume()")
        served.until_true("the notes on the replica") { titles(served).size == VISITORS }
      end
    end
  end

  private

  # @return [Array(Boolean, String)] whether a visitor sees its own note, and the note
  def visit(served, title)
    Net::HTTP.start("127.0.0.1", served.port, read_timeout: 60) do |http|
      answer = http.request(Net::HTTP::Post.new("/notes").tap { |post| post.set_form_data(title:) })
      [titles(served, "Cookie" => answer["set-cookie"][/\A[^;]+/]).include?(title), title]
    end
  end

  def titles(served, fields = {}) = JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{served.port}/notes.json"), fields)).map { |note| note["title"] }

  def with_a_replica
    NeverBlockTest::RailsApp.open do |app|
      app.run("bin/rails", "db:prepare")
      standby = NeverBlockTest::PostgresServer.replica(app.postgres)
      primary = {"adapter" => "neverblock_postgresql", "database" => "shop_development", "connections" => 4}
      replica = primary.merge("replica" => true, "host" => standby.folder, "port" => standby.port)
      app.write("config/database.yml", {"development" => {"primary" => primary, "primary_replica" => replica}}.to_yaml)
      app.write("config/initializers/multi_db.rb", SELECTOR)
      app.write("app/models/application_record.rb", app.read("app/models/application_record.rb").sub(/^end/, "  connects_to database: {writing: :primary, reading: :primary_replica}\nend"))
      yield app, standby
    ensure
      standby&.stop
    end
  end
end
