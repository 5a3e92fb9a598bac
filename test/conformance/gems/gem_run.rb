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
    #   run.failures     # => {"Scenic::View is …" => "expected: …"}, what fares differently with ours
    class GemRun
      ROOT = File.expand_path("../../..", __dir__)
      DESCRIPTIONS = YAML.safe_load_file(File.join(__dir__, "gems.yml"))
      ADAPTERS = %w[postgresql neverblock_postgresql].freeze
      LIMIT = 900 # seconds for one run of a suite
      SEED = "1"

      # There is no checkout, or no suite in it.
      class Missing < StandardError; end

      # @return [String]
      attr_reader :name, :postgres
      # @return [Array<Hash{String=>Hash}>] the tests of either run, by their names
      attr_reader :stock, :ours

      # @param name [String] as in gems.yml
      # @param folder [String] with checkouts
      def initialize(name, folder)
        @name = name
        @description = DESCRIPTIONS.fetch(name) { raise Missing, "#{name} is not described in test/conformance/gems/gems.yml: #{DESCRIPTIONS.keys.join(", ")} are" }
        @source = File.expand_path(name, folder)
        raise Missing, "#{@source} has no specs: clone the repository of #{name} there, since its gem has none" unless File.directory?(File.join(@source, "spec"))
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

      # @return [Hash{String=>String}] messages by tests that have not the same result with ours
      def failures
        stock.reject { |test, result| ours[test]&.fetch("status") == result["status"] }.to_h { |test, _| [test, message(ours[test])] }
          .merge((ours.keys - stock.keys).to_h { |test| [test, "is run with ours only"] })
      end

      # @return [String] the gem's
      def version = File.read(File.join(@home, "Gemfile.lock"))[/^    #{name} \((.+)\)$/, 1]

      # @return [String] Active Record's
      def active_record = File.read(File.join(@home, "Gemfile.lock"))[/^    activerecord \((.+)\)$/, 1]

      # @return [String] of the checkout
      def commit = IO.popen(%w[git rev-parse --short=10 HEAD], chdir: @source, &:read).chomp

      private

      def message(result) = result ? result.dig("exception", "message").to_s.strip.lines.first(3).map(&:strip).join(" ") : "is not run with ours"

      def install
        FileUtils.mkdir_p(@home)
        gems = @description.fetch("gems").map { |gem, version| "gem #{gem.inspect}, #{version.inspect}" }
        own = {name => @source, "neverblock" => ROOT}.map { |gem, path| "gem #{gem.inspect}, path: #{path.inspect}" }
        File.write(File.join(@home, "Gemfile"), ["source #{Gem.sources.to_a.first.inspect}", *own, *gems].join("\n"))
        system(bundle, "bundle", "check", out: IO::NULL, err: IO::NULL) || system(bundle, "bundle", "install", exception: true)
      end

      def bundle = {"BUNDLE_GEMFILE" => File.join(@home, "Gemfile"), "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(File.dirname(@home), "bundle")}

      # @return [Hash{String=>Hash}] what RSpec says of each test
      def suite(server, adapter)
        server.query("drop database if exists #{@description["database"]} with (force)")
        server.query("create database #{@description["database"]}")
        result = File.join(@home, "#{adapter}.json")
        FileUtils.rm_f(result)
        environment = {**bundle, "PGHOST" => server.folder, "PGPORT" => server.port.to_s, "PGUSER" => server.user, "CONFORMANCE_ADAPTER" => adapter}
        command = ["timeout", "-k", "5", LIMIT.to_s, "bundle", "exec", RbConfig.ruby, File.join(__dir__, "child.rb"),
          "--format", "json", "--out", result, "--order", "rand:#{SEED}", *@description.fetch("arguments")]
        output = IO.popen(environment, command, chdir: @source, in: IO::NULL, err: %i[child out], &:read)
        raise Missing, "#{name}: #{output.lines.last}" if output.lines.last.to_s.start_with?("the suite ran with")
        tests = File.size?(result) ? JSON.parse(File.read(result)).fetch("examples") : []
        raise Missing, "#{name}: no test ran with #{adapter}:\n#{output.lines.last(20).join}" if tests.empty?
        tests.to_h { |test| ["#{test["full_description"]} (#{test["id"]})", test] }
      end
    end
  end
end
