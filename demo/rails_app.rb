# frozen_string_literal: true

# The Rails app of demo/rails, served by one process; it ends together with the demo.
#
#   app = Demo::RailsApp.new(database, "NeverBlock").until_ready
#   app.delay = 1.0
#   Net::HTTP.get(app.uri("/7"))       # => "you asked for /7", a second later
#   app.close
require "net/http"
require "rbconfig"
require "uri"
require_relative "database"

module Demo
  class RailsApp
    ROOT = File.expand_path("..", __dir__)
    GEMFILE = File.join(__dir__, "Gemfile")
    RACKUP = File.join(__dir__, "rails", "config.ru")

    # A server's options; all others are defaults.
    SERVERS = {
      "NeverBlock" => {gem: "neverblock", adapter: "neverblock_postgresql", arguments: ["serve"]},
      "Puma" => {gem: "puma", adapter: "postgresql", arguments: []}
    }.freeze

    # Variables of the demo, or of its caller, that would change the result.
    UNSET = %w[RUBYOPT RUBYLIB BUNDLE_LOCKFILE RACK_ENV DATABASE_URL WEB_CONCURRENCY RAILS_MAX_THREADS PUMA_MAX_THREADS MAX_THREADS PORT].freeze

    # @return [String, nil] why there can be none
    def self.missing
      NeverBlockTest::PostgresServer.missing || ("bin/setup has not installed its gems" unless gems?)
    end

    # @return [Boolean] whether Rails and pg can be loaded: preview Rubies, and systems without libpq, do without pg
    def self.gems?
      return false unless File.exist?("#{GEMFILE}.lock")
      system(*command({}, "-e", 'gem "railties"; gem "pg"'), %i[out err] => File::NULL)
    end

    # @param settings [Hash{String=>String}] environment
    # @return [Array<String>] Ruby in the app's bundle
    def self.command(settings, *arguments)
      settings = {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"), **settings}
      ["env", *UNSET.flat_map { |name| ["-u", name] }, *settings.map { |pair| pair.join("=") },
        RbConfig.ruby, "-W0", "-rbundler/setup", *arguments]
    end

    # @param database [Database]
    # @param name [String] of the server
    def initialize(database, name)
      @database = database
      @name = name
      @delay = 0.0
      server = SERVERS.fetch(name)
      @base = "http://127.0.0.1:#{NeverBlockTest::Peer.free_port}/"
      settings = {"RAILS_ENV" => "production", "DEMO_ADAPTER" => server[:adapter], **database.environment(name)}
      command = RailsApp.command(settings, "-e", "load Gem.bin_path(*[#{server[:gem].dump}] * 2)", "--", *server[:arguments],
        "-b", @base.sub("http:", "tcp:").chomp("/"), RACKUP)
      # Puma 8.0 sometimes never ends on TERM so soon after its first requests; there is nothing to be kept.
      @peer = NeverBlockTest::Peer.start(signal: "KILL") { command }
    end

    # @return [String] of the server
    attr_reader :name

    # @return [Float] seconds that the database sleeps for each request
    attr_accessor :delay

    # @return [RailsApp] that answers
    # @raise [RuntimeError] if it does not, with its output
    def until_ready
      @peer.until_ready { threads && true }
      self
    end

    # @param target [String] path
    # @return [URI::HTTP]
    def uri(target) = URI.join(@base, "#{target}?wait=#{@delay}")

    # @return [Integer, nil] Ruby threads that have run the action so far; nil: it does not answer
    def threads
      Net::HTTP.get(uri("/threads")).to_i
    rescue SystemCallError
      nil
    end

    # @return [Integer] how many connections to the database it has
    def connections = @database.connections(@name)

    # @return [void]
    def close = @peer.stop
  end
end
