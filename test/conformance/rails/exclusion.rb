# frozen_string_literal: true

require "yaml"

module Conformance
  module Rails
    # One of Active Record's tests that can't pass with our adapter in a loop, with the reason. Defined in
    # exclusions.yml:
    #
    #   - test: ActiveRecord::PostgresqlConnectionTest#test_statement_key_is_logged
    #     reason: its EXECUTE by SQL takes the adapter's name of a statement, which is no real connection's
    #
    # "Class#*" means all tests of a class. Each test is run all the same, and must not pass; `sometimes: true` marks
    # those that may pass, since their result depends on the order of events.
    class Exclusion
      LIST = File.join(__dir__, "exclusions.yml")

      # @return [Array<Exclusion>]
      def self.all = (YAML.safe_load_file(LIST) || []).map { |entry| new(**entry.transform_keys(&:to_sym)) }

      # @return [String]
      attr_reader :test, :reason

      def initialize(test:, reason:, sometimes: false)
        @test = test
        @reason = reason
        @sometimes = sometimes
        raise ArgumentError, "#{LIST}: #{test}: `test` is Class#method, `reason` says why" unless test.include?("#") && reason.length > 15
      end

      # @return [Boolean] whether it covers a whole class
      def all? = @test.end_with?("#*")

      # @return [Boolean] whether the test may pass
      def may_pass? = @sometimes || all?

      # @param test [String]
      def matches?(test) = all? ? test.start_with?(@test.delete_suffix("*")) : test == @test

      # @param names [Array<String>]
      # @return [Array<String>] the names that it covers
      def tests(names) = names.select { |name| matches?(name) }
    end
  end
end
