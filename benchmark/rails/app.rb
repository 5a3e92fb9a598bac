# frozen_string_literal: true

# The Rails app that is measured: what `rails new` writes with the files of benchmark/rails/app laid over it, in production,
# on a PostgreSQL of its own, for as long as the block runs.
#
#   Bench::Rails::App.open do |app|
#     app.folder                      # => "/tmp/.../shop"
#     app.backends.count              # => 12, of its processes
#   end
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "../bench/failure"
require_relative "../bench/load_path"
require_relative "../../test/support/postgres"
require_relative "../../test/support/rails_template"

module Bench
  class Rails
    class App
      VERSION = "8.1"
      GEMFILE = File.join(__dir__, "Gemfile")
      OVERLAY = File.join(__dir__, "app")
      SERVERS = %w[neverblock puma falcon].freeze
      DATABASE = "shop_production"

      # @return [String, nil] the reason why it can't run
      def self.missing
        return "its gems are not installed: .neverblock/log/bench-rails-bundle.log says why" unless File.exist?("#{GEMFILE}.lock")
        require_relative "../database/backends"
        NeverBlockTest::PostgresServer.missing
      rescue LoadError
        "the gem pg is not installed: .neverblock/log/bench-bundle.log says why"
      end

      # @yieldparam app [App]
      # @return [Object] the block's value
      # @raise [Failure]
      def self.open
        NeverBlockTest::PostgresServer.open do |postgres|
          Dir.mktmpdir("bench") do |folder|
            app = new(File.join(folder, "shop"), postgres)
            yield app
          ensure
            app&.backends&.close
          end
        end
      end

      # @return [String]
      attr_reader :folder
      # @return [Hash{String=>String}] the paths of the servers' commands, by their gems
      attr_reader :executables
      # @return [Database::Backends] the PostgreSQL connections of its processes
      attr_reader :backends

      def initialize(folder, postgres)
        @folder = folder
        @postgres = postgres
        @backends = Database::Backends.new(postgres.url, DATABASE) if postgres
        prepare
        @executables = SERVERS.zip(ruby("-rbundler/setup", "-e", "puts ARGV.map { |name| Gem.bin_path(name, name) }", *SERVERS).lines(chomp: true)).to_h
      end

      # @return [Hash{String=>String, nil}] of its processes, whatever serves it
      def environment
        LoadPath::UNBUNDLED.merge(
          "RUBYLIB" => nil, "BUNDLE_GEMFILE" => GEMFILE,
          "BUNDLE_PATH" => File.join(LoadPath::ROOT, "benchmark", "vendor", "bundle"), "RUBY_YJIT_ENABLE" => "1",
          "RAILS_ENV" => "production", "RACK_ENV" => "production", "SECRET_KEY_BASE" => "0" * 64, "RAILS_LOG_LEVEL" => "info",
          "WEB_CONCURRENCY" => nil, "PORT" => nil, "CONSOLE_LEVEL" => "error", **database
        )
      end

      # @return [String] versions of its parts
      def versions = "#{gems(%w[rails pg puma falcon])}, PostgreSQL #{@backends.version}"

      private

      def prepare
        FileUtils.cp_r(NeverBlockTest::RailsTemplate.folder(VERSION, environment:), folder)
        FileUtils.cp_r("#{OVERLAY}/.", folder)
        ruby("bin/rails", "db:prepare", "assets:precompile")
      end

      def database = {"PGHOST" => @postgres.folder, "PGPORT" => @postgres.port.to_s, "PGUSER" => @postgres.user}

      def gems(names) = ruby("-rbundler/setup", "-e", "puts ARGV.map { |name| \"\#{name} \#{Gem.loaded_specs.fetch(name).version}\" }.join(', ')", *names).chomp

      def ruby(*arguments)
        output, status = Open3.capture2(environment, RbConfig.ruby, "-W0", *arguments, chdir: (folder if File.directory?(folder)) || Dir.pwd)
        raise Failure, "#{arguments.first(3).join(" ")} failed: #{output.lines.last(3).join.strip}" unless status.success?
        output
      end
    end
  end
end
