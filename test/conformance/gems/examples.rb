# frozen_string_literal: true

module Conformance
  module Gems
    # Procs that run a suite and return the result of each of its tests.
    #
    #   Examples.rspec("1", ["spec"]).call                     # => [{name: "A thing works (./spec/…[1:1])", status: "passed"}, …]
    #   Examples.minitest("1", ["test/thing_test.rb"]).call
    module Examples
      module_function

      # @param seed [String] for the order
      # @param arguments [Array<String>]
      # @return [Proc]
      def rspec(seed, arguments)
        require "rspec/core"
        lambda do
          RSpec::Core::Runner.run(["--order", "rand:#{seed}", *arguments])
          RSpec.world.all_examples.filter_map do |example|
            outcome = example.execution_result
            next unless outcome.status # not selected for this run
            {name: "#{example.full_description} (#{example.id})", status: outcome.status.to_s, message: outcome.exception&.message}
          end
        end
      end

      # @param seed [String] for the order
      # @param arguments [Array<String>] files, and options of Minitest's
      # @return [Proc]
      def minitest(seed, arguments)
        require "minitest"
        Minitest.class_variable_set(:@@installed_at_exit, true) # the suite runs here, not at exit
        files, options = arguments.partition { |argument| argument.end_with?(".rb") }
        lambda do
          $LOAD_PATH.unshift(File.expand_path("test"), File.expand_path("lib"))
          require "test_helper"
          ENV.fetch("CONFORMANCE_LOAD", "").split.each { |file| load file }
          files.each { |file| require File.expand_path(file) }
          results = collect
          Minitest.run(["--seed", seed, *options])
          results.map { |result| {name: "#{result.klass}##{result.name}", status: status(result), message: result.failure&.message} }
        end
      end

      # @return [Array<Minitest::Result>] filled while tests run
      def collect
        results = []
        reporter = Class.new(Minitest::AbstractReporter) { define_method(:record) { |result| results << result } }
        Minitest.define_singleton_method(:plugin_conformance_init) { |_options| self.reporter << reporter.new }
        Minitest.extensions << "conformance"
        results
      end

      def status(result)
        return "pending" if result.skipped?
        result.passed? ? "passed" : "failed"
      end
    end
  end
end
