# frozen_string_literal: true

require "test_helper"
require "support/rails_app"
require "support/web_socket"
require "json"

# What a Rails app on `adapter: neverblock_postgresql` says of it, and what goes through PostgreSQL besides records.
class RailsPostgresTest < Minitest::Test
  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_a_url_and_what_the_log_tells_of_it_and_action_cable_by_listen
    NeverBlockTest::RailsApp.open do |app|
      url = "neverblock-postgresql://#{app.postgres.user}@127.0.0.1:#{app.postgres.port}/shop_development?connections=4"
      app.write("config/cable.yml", "development:\n  adapter: postgresql\n")
      app.run("bin/rails", "db:prepare", environment: {"DATABASE_URL" => url})
      File.write(File.join(app.folder, "log/development.log"), "")
      app.serve(environment: {"DATABASE_URL" => url}) do |served|
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
      assert_match(/database primary: adapter neverblock_postgresql, 4 connections of this process, share: reads, pipelined by libpq \d+\.\d+/, log)
      assert_equal 1, log.scan(/neverblock: connected to PostgreSQL \d/).size
    end
  end
end
