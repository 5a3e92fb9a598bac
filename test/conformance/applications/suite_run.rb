# frozen_string_literal: true

module Conformance
  module Applications
    # An application's own suite, unchanged and with NeverBlock: with our adapter if the database is PostgreSQL, in a
    # loop if the description says so. The failures are compared by name.
    #
    #   suite = SuiteRun.new(application).call
    #   suite.failures      # => ["IssueTest#test_create"], those with NeverBlock only
    class SuiteRun
      SEED = "1"
      LIMIT = 3600 # seconds for one run of it
      SUMMARY = /^(\d+) (?:runs|tests), (\d+) assertions.*/

      # @param application [Application] prepared
      def initialize(application)
        @application = application
      end

      # @return [self]
      def call
        @stock, @ours = [nil, "neverblock-postgresql"].map { |adapter| suite(adapter) }
        self
      end

      # @return [Array<String>]
      def failures = @ours[SUMMARY] ? names(@ours) - names(@stock) : ["the suite did not end: #{@ours.lines.last}"]

      # @return [Array<String>] for the report
      def lines
        ["Its own suite, stock: #{@stock[SUMMARY] || "did not end"}. With ours, in a loop: #{@ours[SUMMARY] || "did not end"}.", "",
          *(failures.any? ? ["Failed with ours only:", "", *failures.map { |name| "- `#{name}`" }] : ["No test failed with ours only."]), ""]
      end

      private

      def suite(adapter)
        @application.database.create
        environment = {**@application.environment(adapter), "RAILS_ENV" => "test", "PARALLEL_WORKERS" => "1"}
        prepare(environment)
        loop = adapter ? ["-r#{File.join(__dir__, "suite_in_loop")}"] : []
        command = ["timeout", "-k", "5", LIMIT.to_s, "bundle", "exec", RbConfig.ruby, *loop, *@application.description.fetch("suite"), "--seed", SEED]
        IO.popen(environment, command, chdir: @application.folder, in: IO::NULL, err: %i[child out], &:read)
      end

      def prepare(environment)
        IO.popen(environment, %w[bundle exec bin/rails db:test:prepare], chdir: @application.folder, err: %i[child out], &:read).then do |output|
          raise Application::Missing, "db:test:prepare failed for #{@application.name}:\n#{output.lines.last(20).join}" unless $?.success?
        end
      end

      # Rails' reporter prints each failure at once, Minitest's at the end.
      def names(output) = output.scan(/^(?:Failure|Error):\n(\S+?#test_.+?)(?: \[.*|:)$/).flatten.uniq
    end
  end
end
