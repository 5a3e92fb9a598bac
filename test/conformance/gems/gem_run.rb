# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"
require "yaml"
require_relative "../../support/postgres"

module Conformance
  module Gems
    # The suite of one gem that gems.yml describes, on a PostgreSQL of its own, with the stock adapter and with ours in a loop.
    #
    #   run = GemRun.new("scenic", "/folder/with/checkouts").call
    #   run.failures     # => {"Scenic::View is …" => "expected: …"}, tests with another result on our adapter
    class GemRun
      ROOT = File.expand_path("../../..", __dir__)
      DESCRIPTIONS = YAML.safe_load_file(File.join(__dir__, "gems.yml"))
      ADAPTERS = %w[postgresql neverblock_postgresql].freeze
      LIMIT = 900 # seconds for one run of a suite
      SEED = "1"

      # There is no checkout, or it has no suite.
      class Missing < StandardError; end

      # @return [String]
      attr_reader :name, :postgres
      # @return [Hash{String=>Hash}] the tests of each run, by name
      attr_reader :stock, :ours

      # @param name [String] as in gems.yml
      # @param folder [String] with checkouts
      def initialize(name, folder)
        @name = name
        @description = DESCRIPTIONS.fetch(name) { raise Missing, "#{name} is not described in test/conformance/gems/gems.yml: #{DESCRIPTIONS.keys.join(", ")} are" }
        @source = File.expand_path(name, folder)
        raise Missing, "#{@source} has no tests: clone the repository of #{name} there, since its gem has none" unless %w[spec test].any? { |part| File.directory?(File.join(@source, part)) }
        @home = File.join(Dir.tmpdir, "neverblock-conformance-gems-#{Process.uid}", name)
      end

      # @return [self]
      def call
        install
        NeverBlockTest::PostgresServer.open(max_connections: 60) do |server|
          @postgres = server.query("show server_version")[/\A\d+/]
          @stock, @ours = ADAPTERS.map { |adapter| suite(server, adapter) }
        end
        self
      end

      # @return [Hash{String=>String}] messages of tests with another result on our adapter, by test
      def failures
        stock.reject { |test, result| ours[test]&.fetch("status") == result["status"] }.to_h { |test, _| [test, message(ours[test])] }
          .merge((ours.keys - stock.keys).to_h { |test| [test, "is run with ours only"] })
      end

      # @return [Hash{String=>String}] reasons from gems.yml, by test
      def reasons
        described = @description.fetch("differs", {})
        failures.keys.to_h { |test| [test, described.find { |part, _| test.include?(part) }&.last] }.compact
      end

      # @return [Hash{String=>String}] messages of failures without a reason there
      def unexplained = failures.except(*reasons.keys)

      # @return [String] the gem's version
      def version = File.read(File.join(@home, "Gemfile.lock"))[/^    #{name} \((.+)\)$/, 1]

      # @return [String] Active Record's version
      def active_record = File.read(File.join(@home, "Gemfile.lock"))[/^    activerecord \((.+)\)$/, 1]

      # @return [String] of the checkout
      def commit = IO.popen(%w[git rev-parse --short=10 HEAD], chdir: @source, &:read).chomp

      private

      def message(result) = result ? result["message"].to_s.strip.lines.first(3).map(&:strip).join(" ") : "is not run with ours"

      def install
        FileUtils.mkdir_p(@home)
        gems = @description.fetch("gems").map { |gem, version| "gem #{gem.inspect}, #{version.inspect}" }
        own = {name => @source, "neverblock" => ROOT}.map { |gem, path| "gem #{gem.inspect}, path: #{path.inspect}" }
        File.write(File.join(@home, "Gemfile"), ["source #{Gem.sources.to_a.first.inspect}", *own, *gems].join("\n"))
        system(bundle, "bundle", "check", out: IO::NULL, err: IO::NULL) || system(bundle, "bundle", "install", exception: true)
      end

      def bundle = {"BUNDLE_GEMFILE" => File.join(@home, "Gemfile"), "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(File.dirname(@home), "bundle")}

      # @return [Hash{String=>Hash}] the result of each test
      def suite(server, adapter)
        server.query("drop database if exists #{@description["database"]} with (force)")
        server.query("create database #{@description["database"]}")
        result = File.join(@home, "#{adapter}.json")
        FileUtils.rm_f(result)
        command = ["timeout", "-k", "5", LIMIT.to_s, "bundle", "exec", RbConfig.ruby, File.join(__dir__, "child.rb"), result, @description.fetch("runner", "rspec"), SEED,
          *Dir.glob(@description.fetch("files", []), base: @source).sort, *@description.fetch("arguments")]
        output = IO.popen(environment(server, adapter), command, chdir: @source, in: IO::NULL, err: %i[child out], &:read)
        tests = File.size?(result) ? JSON.parse(File.read(result)) : []
        raise Missing, "#{name}: no test ran with #{adapter}:\n#{output.lines.last(20).join}" if tests.empty?
        tests.to_h { |test| [test["name"], test] }
      end

      def environment(server, adapter)
        url = "postgresql:///#{@description["database"]}?host=#{server.folder}&port=#{server.port}&user=#{server.user}"
        own = @description.fetch("environment", {}).transform_values { |value| format(value, url:) }
        {**bundle, "PGHOST" => server.folder, "PGPORT" => server.port.to_s, "PGUSER" => server.user, "CONFORMANCE_ADAPTER" => adapter, **own}
      end
    end
  end
end
