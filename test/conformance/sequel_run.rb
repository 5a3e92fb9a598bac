# frozen_string_literal: true

require "rbconfig"
require "tmpdir"
require_relative "../support/postgres"

module Conformance
  # Sequel's specs of its PostgreSQL adapter and its integration specs: each file in a process and a database of its
  # own, in a loop, with the plain adapter and with ours.
  #
  #   run = Conformance::SequelRun.new("/path/to/sequel")
  #   run.call { |result| puts result }
  #   run.failures    # those with our adapter only
  class SequelRun
    ROOT = File.expand_path("../..", __dir__)
    GEMFILE = File.join(__dir__, "sequel.gemfile")
    ADAPTERS = {plain: "postgres", ours: "neverblock-postgres"}.freeze
    LIMIT = 600 # seconds for one file

    # Intended differences, with their reasons.
    EXCLUDED = {
      "PostgreSQL temporary table/view support" => "its temporary tables are of no hold: in a loop a session ends with its hold (docs/postgres-sequel.md)",
      "Postgres::Database LISTEN/NOTIFY should support listen and notify" => "it expects that a pool has one connection, by the number of its process"
    }.freeze

    # The result of one file: its name, the counts of each adapter, the names of specs that failed with ours only.
    Result = Struct.new(:file, :plain, :ours, :failed, :excluded) do
      def to_s = ["#{file}: #{ours || "did not end"} (plain: #{plain || "did not end"})", *failed.map { |name| "  failed: #{name}" }, *excluded.map { |name| "  excluded: #{name}" }].join("\n")
    end

    # @param source [String] a checkout of Sequel
    # @param only [Array<String>] parts of file names
    def initialize(source, only: [])
      @source = File.expand_path(source)
      @files = Dir.glob(["spec/adapters/postgres_spec.rb", "spec/integration/*_test.rb"], base: @source).sort
      raise ArgumentError, "SEQUEL_SOURCE=#{source} has no specs: give it a checkout of Sequel, not its gem" if @files.empty?
      @files.select! { |file| only.any? { |part| file.include?(part) } } if only.any?
      @results = []
    end

    # @return [Array<Result>]
    attr_reader :results

    # @return [String] the server's version
    attr_reader :postgres

    # @return [String] Sequel's version
    def version = File.read(File.join(@source, "lib/sequel/version.rb")).scan(/^\s*(?:MAJOR|MINOR|TINY)\s*=\s*(\d+)/).join(".")

    # @yieldparam result [Result]
    # @return [self]
    def call(&)
      install
      NeverBlockTest::PostgresServer.open(max_connections: 60) do |server|
        @postgres = server.query("show server_version")[/\A\d+/]
        @files.each { |file| yield @results.push(run(server, file)).last }
      end
      self
    end

    # @return [Array<String>]
    def failures = @results.flat_map { |result| result.failed + (result.ours ? [] : ["#{result.file} did not end"]) }

    private

    def install
      environment = {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(ROOT, "vendor/bundle")}
      system(environment, "bundle", "check", out: IO::NULL, err: IO::NULL) || system(environment, "bundle", "install", exception: true)
    end

    def run(server, file)
      plain, ours = ADAPTERS.map { |name, scheme| specs(server, file, "nb_#{name}", scheme) }
      failed, excluded = (names(ours) - names(plain)).partition { |name| EXCLUDED.keys.none? { |start| name.start_with?(start) } }
      Result.new(file, *[plain, ours].map { |output| output[/^\d+ runs,.*/] }, failed, excluded)
    end

    # @return [String] the specs' output
    def specs(server, file, database, scheme)
      server.query("drop database if exists #{database} with (force)")
      server.query("create database #{database}")
      url = server.url(database).sub("postgresql:", "#{scheme}:")
      environment = {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(ROOT, "vendor/bundle"), "SEQUEL_FIBER_CONCURRENCY" => "1", "SEQUEL_POSTGRES_URL" => url, "SEQUEL_INTEGRATION_URL" => url}
      command = ["timeout", "-k", "5", LIMIT.to_s, "bundle", "exec", RbConfig.ruby, "-I#{@source}/lib", "-I#{ROOT}/lib", "-r#{__dir__}/in_loop", "-e", "load ARGV.shift", file]
      IO.popen(environment, command, chdir: @source, in: IO::NULL, err: %i[child out], &:read)
    end

    # @return [Array<String>] names of failed specs; their numbers depend on the adapter
    def names(output) = output.scan(/^ +\d+\) (?:Failure|Error):\n(.+?)(?: \[.*|:)$/).flatten.map { |name| name.sub(/#test_\d+_/, " ") }
  end
end
