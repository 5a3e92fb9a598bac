# frozen_string_literal: true

# One report for many clients at once: how often the app is asked, and when the clients have it, with and without the
# cache. Each client checks the whole report.
#
#   outcome = Demo::Report.new(screen, delay: 2.0).run("with the cache", clients: 500, cache: true)
#   outcome.calls, outcome.last      # => 1, 2.3
require "net/http"
require "neverblock"
require_relative "back_end"
require_relative "requests"

module Demo
  class Report
    SERVER = File.join(__dir__, "report_server.rb")
    CONNECTIONS = 10 # computations of the app at once
    LINES = 400
    LIMIT = 120 # seconds that a client waits, on the slowest of machines

    # asked: clients; right: those that had the whole report; calls: of the app; times: seconds until a client had the report,
    # in order; trouble: the first thing that went wrong
    Outcome = Struct.new(:way, :asked, :right, :calls, :times, :trouble) do
      # @return [Boolean] whether each client had the whole report
      def all_right? = right == asked

      # @return [Float] seconds until the first client had it; likewise the one in the middle, and the last one
      def first = times.first

      def median = times[times.size / 2]

      def last = times.last

      # @return [Float] seconds until so many clients have it, if they get it at this rate
      def extrapolated(clients) = last * clients / asked
    end

    # @param number [Integer] of the call of the app
    # @return [String] the report, some 20 kB
    def self.text(number) = "report of call #{number}\n" << Array.new(LINES) { |line| "#{number}/#{line}: #{(line * 7_919 + number) % 10_007} of 10007 sold, as of today\n" }.join

    # @param screen [Screen]
    # @param delay [Float] seconds that the report takes
    def initialize(screen, delay:)
      @screen = screen
      @delay = delay
    end

    # @param way [String] its name
    # @param clients [Integer] that ask at once
    # @param cache [Boolean]
    # @return [Outcome]
    def run(way, clients:, cache:)
      BackEnd.open(delay: @delay, program: SERVER, options: [*("--cache" if cache)]) do |server|
        outcome(way, clients, server) { server.stats["calls"] }
      end
    end

    private

    # @param server [BackEnd] that the clients ask
    # @yieldreturn [Integer] calls of the app
    # @return [Outcome]
    def outcome(way, clients, server)
      results = ask(server.uri("/report"), clients, @screen.bar(way, clients))
      troubles = results.map(&:first).compact
      Outcome.new(way, clients, clients - troubles.size, yield, results.map(&:last).sort, troubles.first)
    end

    # @return [Array<Array(String, Float)>] of each client: the mistake, if any; the seconds until it had its response
    def ask(uri, clients, bar)
      started = now
      NeverBlock.concurrently(1..clients, limit: clients) do
        [mistake(uri), now - started].tap { bar.advance }
      end
    ensure
      bar.finish
    end

    # One request with stock Net::HTTP.
    # @return [String, nil]
    def mistake(uri)
      response = Net::HTTP.start(uri.host, uri.port, open_timeout: LIMIT, read_timeout: LIMIT) { |http| http.get(uri.path) }
      number = response.body[/\Areport of call (\d+)$/, 1]
      "a client had #{response.code} with #{response.body.bytesize} wrong bytes" unless response.code == "200" && number && response.body == Report.text(number.to_i)
    rescue SystemCallError, SocketError, Timeout::Error, IOError => error
      "#{error.message} (#{error.class})"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
