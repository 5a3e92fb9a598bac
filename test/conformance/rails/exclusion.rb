# frozen_string_literal: true

require "yaml"

module Conformance
  module Rails
    # One of Active Record's tests that can't pass with our adapter in a loop, and why. Written in exclusions.yml:
    #
    #   - test: ActiveRecord::PostgresqlConnectionTest#test_statement_key_is_logged
    #     reason: its EXECUTE by SQL takes the adapter's name of a statement, which is no real connection's
    #
    # "Class#*" means all of a class; with `rails: ["7.2"]` it is of that release alone. Each single one is run all the same, and must
    # not pass.
    class Exclusion
      LIST = File.join(__dir__, "exclusions.yml")

      # @param version [String] of Rails
      # @return [Array<Exclusion>]
      def self.of(version) = (YAML.safe_load_file(LIST) || []).map { |entry| new(**entry.transform_keys(&:to_sym)) }.select { |exclusion| exclusion.of?(version) }

      # @return [String]
      attr_reader :test, :reason

      def initialize(test:, reason:, rails: Tree::VERSIONS)
        @test = test
        @reason = reason
        @rails = rails
        raise ArgumentError, "#{LIST}: #{test}: `rails` is a list of some of #{Tree::VERSIONS.join(", ")}, not #{rails.inspect}" unless rails.is_a?(Array) && (rails - Tree::VERSIONS).empty?
        raise ArgumentError, "#{LIST}: #{test}: `test` is Class#method, `reason` says why" unless test.include?("#") && reason.length > 15
      end

      # @param version [String] of Rails
      # @return [Boolean]
      def of?(version) = @rails.include?(version[/\A\d+\.\d+/])

      # @return [Boolean] whether it means all of a class
      def all? = @test.end_with?("#*")

      # @param test [String]
      def matches?(test) = all? ? test.start_with?(@test.delete_suffix("*")) : test == @test

      # @param names [Array<String>]
      # @return [Array<String>] those that it means
      def tests(names) = names.select { |name| matches?(name) }
    end
  end
end
