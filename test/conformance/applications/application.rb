# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "securerandom"
require "yaml"
require_relative "database"

module Conformance
  module Applications
    # An application of another project: a copy of a checkout, its gems plus NeverBlock's, its database, and a
    # description in a file beside this one. A file of your own describes any application.
    #
    #   application = Application.new("campfire.yml")
    #   application.prepare
    #   application.run("bin/rails", "test")      # => its output
    class Application
      ROOT = File.expand_path("../../..", __dir__)
      FOLDER = File.join(ROOT, "tmp", "applications")
      SECRET = "a" * 128 # the same on all servers, so that signatures are the same

      # There is no checkout, or a step of the preparation failed. The message has the remedy.
      class Missing < StandardError; end

      # @return [Array<Application>] those with a variable in the environment
      # @raise [Missing] if there is none
      def self.given
        all = [*Dir[File.join(__dir__, "*.yml")], *ENV["NEVERBLOCK_APPLICATION"]].sort.map { |path| new(path) }
        given = all.select(&:source)
        return given if given.any?
        raise Missing, "Name the checkout of an application: #{all.map { |application| "#{application.variable}=/path" }.join(" or ")} rake conformance:applications"
      end

      # @return [String]
      attr_reader :name
      # @return [Hash{String=>Object}]
      attr_reader :description

      # @param path [String] of its description
      def initialize(path)
        @name = File.basename(path, ".yml")
        @description = YAML.load_file(path)
        @copy = File.join(FOLDER, @name)
        @database = Database.for(description, @copy)
      end

      # @return [Database]
      attr_reader :database

      # @return [String] the copy's folder
      def folder = @copy

      # @return [String] the name of the environment's variable
      def variable = description.fetch("variable")

      # @return [String, nil] the checkout
      def source = ENV[variable].to_s.then { |path| File.expand_path(path) unless path.empty? }

      # Prepares everything that is needed once.
      # @return [void]
      # @raise [Missing]
      def prepare
        raise Missing, "#{variable}=#{source} is no checkout of a Rails application: it has no config.ru" unless File.exist?(File.join(source, "config.ru"))
        copy
        bundle
        database.create
        description.fetch("prepare").each { |command| run(*command) }
        File.write(File.join(@copy, "tmp", "seed.rb"), description.fetch("seed"))
        run("bin/rails", "runner", "tmp/seed.rb")
        database.keep
      end

      # @return [String] the command's output
      # @raise [Missing] if it fails
      def run(*command, **variables)
        output = IO.popen({**environment, **variables.transform_keys(&:to_s)}, ["bundle", "exec", *command], chdir: @copy, in: IO::NULL, err: %i[child out], &:read)
        $?.success? ? output : raise(Missing, "#{command.join(" ")} failed in #{@copy}:\n#{output.lines.grep_v(/^\s+from /).last(20).join}")
      end

      # @return [Hash{String=>String, nil}]
      def environment(adapter = nil)
        {"RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLER_SETUP" => nil, "BUNDLE_LOCKFILE" => nil, "BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => File.join(FOLDER, "gems"),
         "BUNDLE_APP_CONFIG" => File.join(FOLDER, "bundle"), "PATH" => "#{File.dirname(RbConfig.ruby)}:#{ENV["PATH"]}", "RAILS_ENV" => "production", "RUBY_YJIT_ENABLE" => "1",
         "SECRET_KEY_BASE" => SECRET, "RAILS_LOG_LEVEL" => "info", "WEB_CONCURRENCY" => nil, "FIXTURES_PATH" => nil, **description.fetch("environment", {}), **database.environment(adapter)}
      end

      private

      def gemfile = File.join(FOLDER, "#{@name}-gems", "Gemfile")

      def copy
        FileUtils.rm_rf(@copy)
        FileUtils.mkdir_p(FOLDER)
        FileUtils.cp_r(source, @copy)
        description.fetch("edit", []).each { |command| edit(command) }
        description.fetch("files", {}).each { |file, text| File.write(File.join(@copy, file), text) }
        version = File.join(@copy, ".ruby-version")
        File.write(version, RUBY_VERSION) if File.exist?(version) # releases of one series hardly differ; a gem may need another series
        %w[tmp/pids log storage/db].each { |folder| FileUtils.mkdir_p(File.join(@copy, folder)) }
      end

      # Before its gems are known, so without Bundler.
      def edit(command)
        output = IO.popen([*command, {chdir: @copy, err: %i[child out]}], &:read)
        raise Missing, "#{command.join(" ")} failed in #{@copy}:\n#{output}" unless $?.success?
      end

      # Keeps the versions of the checkout's lock, and adds missing gems to it.
      def bundle
        FileUtils.mkdir_p(File.dirname(gemfile))
        File.write(gemfile, "eval_gemfile #{File.join(@copy, "Gemfile").dump}\ngem \"neverblock\", path: #{ROOT.dump}\ngem \"puma\" if dependencies.none? { |gem| gem.name == \"puma\" }\n")
        lock = File.join(@copy, "Gemfile.lock")
        FileUtils.cp(lock, "#{gemfile}.lock") if File.exist?(lock)
        log = IO.popen(environment, %w[bundle install], chdir: @copy, err: %i[child out], &:read)
        raise Missing, "bundle install failed for #{@name}:\n#{log.lines.last(20).join}" unless $?.success?
      end
    end
  end
end
