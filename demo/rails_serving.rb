# frozen_string_literal: true

# A Rails action that waits in PostgreSQL, asked ten times at once: on NeverBlock with `adapter: neverblock_postgresql`,
# and, for the contrast, the same app on Puma with Rails' own adapter. One process each, the database the demo's own.
#
#   serving = Demo::RailsServing.new(screen, database)
#   outcomes = serving.run(1.0)
#   outcomes["NeverBlock"].requests.seconds     # => 1.03
#   outcomes["Puma"].requests.seconds           # => 2.02
#   serving.close
require_relative "rails_app"
require_relative "requests"

module Demo
  class RailsServing
    REQUESTS = 10

    # requests: a Requests::Result of the clients; threads: Ruby threads that ran the action; connections: to the database
    Outcome = Struct.new(:requests, :threads, :connections)

    # @param screen [Screen]
    # @param database [Database]
    def initialize(screen, database)
      @screen = screen
      @database = database
      @apps = []
    end

    # The apps stay for further runs.
    # @param delay [Float] seconds that the database sleeps for each request
    # @return [Hash{String=>Outcome}] by the name of the server
    # @raise [RuntimeError] if the database or the app does not start
    def run(delay)
      start if @apps.empty?
      outcomes = @apps.to_h { |app| [app.name, ask(app, delay)] }
      rows = outcomes.map do |name, outcome|
        result = outcome.requests
        [name, "#{result.right} of #{result.asked}", outcome.threads.to_s, outcome.connections.to_s, format("%.2f s", result.seconds)]
      end
      @screen.puts
      @screen.table([["server", "right", "threads", "connections", "time "], *rows])
      outcomes
    end

    # Ends the apps.
    # @return [void]
    def close = @apps.each(&:close)

    private

    # Both apps start at the same time, and are idle while the other one is asked.
    def start
      bar = @screen.bar("database, two apps", 1 + RailsApp::SERVERS.size)
      @database.server && bar.advance
      RailsApp::SERVERS.each_key { |name| @apps << RailsApp.new(@database, name) }
      @apps.each { |app| app.until_ready && bar.advance }
    ensure
      bar.finish
    end

    def ask(app, delay)
      app.delay = delay
      result = Requests.new(app).under_neverblock(REQUESTS, @screen.bar("Rails on #{app.name}", REQUESTS))
      result.way = "Rails on #{app.name}"
      Outcome.new(result, app.threads, app.connections)
    end
  end
end
