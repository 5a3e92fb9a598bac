# frozen_string_literal: true

require "fileutils"
require "json"
require_relative "../../support/peer"

module Conformance
  module HttpCache
    # The suite "http-cache-tests" (https://cache-tests.fyi): a folder with its origin server, its client and its tests.
    #
    #   package = Package.find    # NEVERBLOCK_HTTP_CACHE_TESTS, or from npm
    #   package.tests.size        # => 360
    #   package.origin(8000)      # => [environment, command]
    class Package
      ROOT = File.expand_path("../../..", __dir__)
      NAME = "http-cache-tests"
      # Of npm. exclusions.yml is about this one and about a checkout, which has newer tests.
      VERSION = "0.4.5"
      FOLDER = File.join(ROOT, "tmp", "#{NAME}-#{VERSION}")
      # Where the parts are: in a checkout, and in the package.
      PARTS = ["test-engine", "."].freeze

      # It can't be had here.
      class Missing < StandardError; end

      # One test: `kind` is required, optimal or check; `group` the title of its part of the suite; `needs` the tests
      # without which it means nothing.
      Test = Struct.new(:id, :kind, :group, :part, :name, :needs)

      class << self
        # @return [Package]
        # @raise [Missing]
        def find
          raise Missing, "#{NAME}: #{missing}" if missing
          folder = ENV["NEVERBLOCK_HTTP_CACHE_TESTS"].to_s
          return new(File.expand_path(folder), checkout: true) unless folder.empty?
          install unless File.exist?(FOLDER)
          new(File.join(FOLDER, "node_modules", NAME), checkout: false)
        end

        # @return [String, nil] why the suite can't run
        def missing = NeverBlockTest::Peer.find("node") ? nil : "node is not installed (Debian: apt-get install nodejs)"

        private

        def install
          npm = NeverBlockTest::Peer.find("npm") or raise Missing, "#{NAME}: npm is not installed (Debian: apt-get install npm), " \
            "and NEVERBLOCK_HTTP_CACHE_TESTS= names no checkout"
          made = "#{FOLDER}.#{Process.pid}"
          FileUtils.mkdir_p(made)
          log = IO.popen([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", made, "#{NAME}@#{VERSION}"], err: %i[child out], &:read)
          raise Missing, "#{NAME}: npm could not install version #{VERSION}: #{log.lines.last(3).join.strip}" unless $?.success?
          File.rename(made, FOLDER)
        rescue Errno::ENOTEMPTY, Errno::EEXIST # by another process
          nil
        ensure
          FileUtils.rm_rf(made) if made
        end
      end

      # @param folder [String]
      # @param checkout [Boolean] whether it is not the package of npm
      def initialize(folder, checkout:)
        @folder = folder
        @checkout = checkout
        @part = PARTS.find { |part| File.exist?(File.join(folder, part, "cli.mjs")) } or
          raise Missing, "#{folder.inspect} has no cli.mjs: NEVERBLOCK_HTTP_CACHE_TESTS= a checkout of #{NAME} after `npm install`"
      end

      # @return [Boolean]
      def checkout? = @checkout

      # @return [String]
      attr_reader :folder

      # @return [String] the version, or the commit of a checkout
      def version
        return VERSION unless checkout?
        commit = IO.popen(["git", "-C", @folder, "log", "-1", "--format=%h of %cs"], err: IO::NULL, &:read).strip
        commit.empty? ? "a checkout" : commit
      end

      # @return [Array<Test>] those that concern a shared cache
      def tests
        @tests ||= JSON.parse(node(LIST)).map { |test| Test.new(**test.transform_keys(&:to_sym)) }
      end

      # @param port [Integer]
      # @param folder [String] for the file with its process id
      # @return [Array(Hash, Array<String>)] environment and command of the origin server
      def origin(port, folder)
        [{"npm_config_protocol" => "http", "npm_config_port" => port.to_s, "npm_config_pidfile" => "#{folder}/origin.pid"},
          [NeverBlockTest::Peer.find("node"), File.join(@folder, @part, "server/server.mjs")]]
      end

      # Runs all tests.
      # @param url [String] of the cache
      # @return [Hash{String=>true, Array(String, String)}] results by the names of tests
      def call(url)
        environment = {"npm_config_base" => url, "npm_config_id" => "", "npm_package_config_id" => ""}
        JSON.parse(run(environment, ["--no-warnings", File.join(@folder, @part, "cli.mjs")])[/^\{.*\}/m].to_s)
      end

      private

      # Each test that a client on the command line runs.
      LIST = <<~JAVASCRIPT
        import { existsSync } from 'fs'
        const tests = (await import(process.cwd() + '/tests/index.mjs')).default
        const more = process.cwd() + '/tests/surrogate-control.mjs'
        if (existsSync(more) && !tests.some(part => part.id === 'surrogate-control')) tests.push((await import(more)).default)
        console.log(JSON.stringify(tests.flatMap(part => part.tests.filter(test => !test.browser_only).map(test => ({
          id: test.id, kind: test.kind || 'required', group: part.name, part: part.id, name: test.name, needs: test.depends_on || []
        })))))
      JAVASCRIPT
      private_constant :LIST

      def node(script) = run({}, ["--no-warnings", "--input-type=module", "-e", script])

      def run(environment, arguments)
        output = IO.popen(environment, [NeverBlockTest::Peer.find("node"), *arguments], chdir: @folder, &:read)
        raise Missing, "#{NAME} in #{@folder} does not run: node has ended with #{$?}" unless $?.success?
        output
      end
    end
  end
end
