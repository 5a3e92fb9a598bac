# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "postgres"
require_relative "rails_template"
require_relative "serve_process"

module NeverBlockTest
  # A real Rails app: the output of `rails new` of that version, with the files of test/apps/rails/app over it. Made
  # once per version, and copied for each test; its databases are on a PostgreSQL of the tests.
  #
  #   RailsApp.open("8.1") do |app|
  #   app.run("bin/rails", "db:prepare")                    # => its output
  #     app.serve { |served| served.get("/notes") }           # bin/rails server
  #   end
  class RailsApp
    FOLDER = File.join(ROOT, "test", "apps", "rails")
    VERSION = ENV.fetch("NEVERBLOCK_RAILS", "8.1")
    OVERLAY = File.join(FOLDER, "app")
    LIMIT = 300 # seconds for one command, even on a busy machine
    CACHE = File.join(ROOT, ".neverblock", "bootsnap") # cache of the compiled gems, which are the same for each app

    # @return [String, nil] why the app can't be made
    def self.missing(version = VERSION)
      return "the gems are known under bundle exec only" unless ENV["BUNDLE_GEMFILE"]
      return "bin/setup has not installed the gems of Rails #{version}" unless File.exist?(File.join(FOLDER, "#{version}.gemfile.lock"))
      PostgresServer.missing
    end

    # @yieldparam app [RailsApp] in a folder that is removed afterwards
    def self.open(version = VERSION)
      PostgresServer.open do |postgres|
        Dir.mktmpdir("nb") { |folder| yield new(version, File.join(folder, "shop"), postgres) }
      end
    end

    # @return [String]
    attr_reader :folder, :version

    # @return [PostgresServer]
    attr_reader :postgres

    def initialize(version, folder, postgres)
      @version = version
      @folder = folder
      @postgres = postgres
      FileUtils.cp_r(RailsTemplate.folder(version, environment:), folder)
      FileUtils.cp_r("#{OVERLAY}/.", folder)
    end

    # @return [Hash{String=>String, nil}] environment of its processes
    def environment
      {"BUNDLE_GEMFILE" => gemfile, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"), "RUBYOPT" => nil, "RUBYLIB" => nil,
       "BOOTSNAP_CACHE_DIR" => CACHE, "RAILS_ENV" => nil, "RACK_ENV" => nil, "WEB_CONCURRENCY" => nil, "PORT" => nil,
       "PGHOST" => postgres.folder, "PGPORT" => postgres.port.to_s, "PGUSER" => postgres.user}
    end

    # @param words [Array<String>] a command of the app's Ruby
    # @return [String] standard output and standard error
    # @raise [Minitest::Assertion] if it failed
    def run(*words, environment: {}, status: 0)
      output, result = Open3.capture2e({**self.environment, **environment}, "timeout", "-k", "5", LIMIT.to_s, RbConfig.ruby, *words, chdir: folder, stdin_data: "")
      return output if result.exitstatus == status
      raise Minitest::Assertion, "#{words.join(" ")} ended with #{result.exitstatus}:\n#{output}"
    end

    # @param command [Array<String>] default: "bin/rails server" on a free port
    # @yieldparam served [ServeProcess]
    def serve(*command, environment: {}, &)
      command = ["bin/rails", "server", "-p", "0", "-b", "127.0.0.1"] if command.empty?
      ServeProcess.open(->(_) { folder }, command:, environment: {**self.environment, **environment}, ruby: ["-W0"], library: [], &)
    end

    # @return [void]
    def write(path, text)
      full = File.join(folder, path)
      FileUtils.mkdir_p(File.dirname(full))
      File.write(full, text)
    end

    # @return [String]
    def read(path) = File.read(File.join(folder, path))

    private

    def gemfile = File.join(FOLDER, "#{version}.gemfile")
  end
end
