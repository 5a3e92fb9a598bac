# frozen_string_literal: true

require "digest"
require "fileutils"
require "open3"
require "rbconfig"

module NeverBlockTest
  # A real Rails app: what `rails new` of that version writes, with the files of test/apps/rails/app laid over it. Made once
  # for each version, and copied for each test.
  #
  #   RailsApp.open("8.1", variables: server.environment) do |app|
  #     app.run("bin/rails", "db:prepare")       # => its output
  #     app.environment                          # for a process that serves it
  #   end
  class RailsApp
    FOLDER = File.join(ROOT, "test", "apps", "rails")
    VERSIONS = %w[7.2 8.0 8.1].freeze
    NEWEST = VERSIONS.last
    OVERLAY = File.join(FOLDER, "app")
    SKIP = %w[bundle git docker bootsnap ci rubocop brakeman kamal thruster solid bundler-audit jbuilder].freeze
    LIMIT = 120 # seconds for one command

    # @param version [String] "8.1"
    # @return [String, nil] why there can be none
    def self.missing(version)
      "bin/setup has not installed the gems of Rails #{version}" unless File.exist?(File.join(FOLDER, "#{version}.gemfile.lock"))
    end

    # @yieldparam app [RailsApp] in a folder that is removed afterwards
    def self.open(version = NEWEST, **)
      Dir.mktmpdir("nb") { |folder| yield new(version, File.join(folder, "shop"), **) }
    end

    # @return [String]
    attr_reader :folder, :version

    # @param variables [Hash] for its processes: PGHOST and the like
    def initialize(version, folder, variables: {})
      @version = version
      @folder = folder
      @variables = {**variables}
      FileUtils.cp_r(template, folder)
      FileUtils.cp_r("#{OVERLAY}/.", folder)
    end

    # @return [Hash{String=>String, nil}] for its processes
    def environment
      {"BUNDLE_GEMFILE" => File.join(FOLDER, "#{version}.gemfile"), "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"),
       "RUBYOPT" => nil, "RUBYLIB" => nil, "RAILS_ENV" => nil, "RACK_ENV" => nil, "WEB_CONCURRENCY" => nil, **@variables}
    end

    # @return [Array<String>] a command of the app's Ruby
    def command(*words) = [RbConfig.ruby, *words]

    # @return [String] what it wrote, to both
    # @raise [Minitest::Assertion] if it failed
    def run(*words, environment: {}, status: 0)
      output, result = Open3.capture2e({**self.environment, **environment}, "timeout", "-k", "5", LIMIT.to_s, *command(*words), chdir: folder, stdin_data: "")
      return output if result.exitstatus == status
      raise Minitest::Assertion, "#{words.join(" ")} ended with #{result.exitstatus}:\n#{output}"
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

    # Several tests may want it at the same time.
    def template
      path = File.join(ROOT, ".neverblock", "rails", "#{version}-#{Digest::SHA256.hexdigest(File.read(environment["BUNDLE_GEMFILE"] + ".lock") + SKIP.join)[0, 12]}")
      return path if File.directory?(path)
      FileUtils.mkdir_p(File.dirname(path))
      made = "#{path}.#{Process.pid}"
      skip = SKIP.map { |name| "--skip-#{name}" }
      output, result = Open3.capture2e(environment, *command("-rbundler/setup", "-e", "load Gem.bin_path('railties', 'rails')", "new", made, "--name=shop",
        "-d", "postgresql", "-a", "propshaft", *skip), chdir: File.dirname(path))
      raise Minitest::Assertion, "rails new failed:\n#{output}" unless result.success?
      File.rename(made, path)
      path
    rescue Errno::ENOTEMPTY, Errno::EEXIST
      FileUtils.rm_rf(made)
      path
    end
  end
end
