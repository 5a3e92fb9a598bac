# frozen_string_literal: true

require "yaml"

module Conformance
  module Rails
    # One of Active Record's tests that can't pass with our adapter in a loop, and why. Written in exclusions.yml:
    #
    #   - test: ActiveRecord::PostgresqlConnectionTest#test_statement_key_is_logged
    #     reason: its EXECUTE by SQL takes the adapter's name of a statement, which is no real connection's
    #
    # "Class#*" means all of a class. Each single one is run all the same, and must not pass; `sometimes: true` is for those that may, since
    # it depends on who is first.
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

      # @return [Boolean] whether it means all of a class
      def all? = @test.end_with?("#*")

      # @return [Boolean] whether it may pass all the same
      def may_pass? = @sometimes || all?

      # @param test [String]
      def matches?(test) = all? ? test.start_with?(@test.delete_suffix("*")) : test == @test

      # @param names [Array<String>]
      # @return [Array<String>] those that it means
      def tests(names) = names.select { |name| matches?(name) }
    end
  end
end
