# frozen_string_literal: true

require "yaml"

module Conformance
  module HttpCache
    # The results of one run, judged as the suite itself does: a test without those that it depends on tells nothing.
    #
    #   verdicts = Verdicts.new(package, package.call(url))
    #   verdicts["freshness-max-age"]     # => :pass
    #   verdicts.passed("required")       # => [Test, …]
    class Verdicts
      # Tests of a cache that obeys Surrogate-Control, which no RFC defines: only the client on the command line has
      # them, and the suite's own tables do not.
      APART = ["surrogate-control"].freeze

      # @param package [Package]
      # @return [Hash{String=>Hash{String=>String}}] names of tests that do not pass with NeverBlock, by their kind, with
      #   the reasons
      def self.exclusions(package)
        suite = package.checkout? ? "checkout" : "package"
        YAML.load_file(File.join(__dir__, "exclusions.yml")).transform_values do |groups|
          groups.select { |group| group.fetch("of", suite) == suite }
            .flat_map { |group| group["tests"].map { |test| [test, group["reason"]] } }.to_h
        end
      end

      # @param package [Package]
      # @param results [Hash] of {Package#call}
      def initialize(package, results)
        @tests = package.tests.reject { |test| APART.include?(test.part) }
        @exclusions = Verdicts.exclusions(package)
        @by_id = package.tests.to_h { |test| [test.id, test] }
        @results = results
        @known = {}
      end

      # @param id [String] of a test
      # @return [:pass, :fail, :setup, :retry, :dependency, :untested]
      def [](id) = @known[id] ||= judge(id)

      # @param kind [String] required, optimal or check
      # @return [Array<Package::Test>]
      def of(kind) = @tests.select { |test| test.kind == kind }

      # @param kind [String]
      # @return [Array<Package::Test>]
      def passed(kind) = of(kind).select { |test| self[test.id] == :pass }

      # @param kind [String]
      # @return [Array<Package::Test>]
      def missed(kind) = of(kind) - passed(kind)

      # @return [Array<String>] required and optimal tests that fail, and are not excluded; one a line
      def unexpected
        %w[required optimal].flat_map do |kind|
          missed(kind).reject { |test| excluded?(test) }.map { |test| "#{test.id} (#{kind}, #{self[test.id]}): #{message(test.id)}" }
        end
      end

      # @return [Array<String>] excluded tests that pass
      def needless = @tests.select { |test| excluded?(test) && self[test.id] == :pass }.map { |test| "#{test.id} passes: it is not to be excluded" }

      # @return [Array<String>] names that exclusions.yml has and the suite has not
      def unknown = @exclusions.flat_map { |kind, names| names.keys - of(kind).map(&:id) }

      # @param test [Package::Test]
      # @return [Boolean]
      def excluded?(test) = @exclusions.fetch(test.kind, {}).key?(test.id)

      # @return [Hash] as of {Package#call}
      attr_reader :results

      private

      def judge(id)
        result = @results[id]
        return :untested if result.nil?
        return :dependency unless Array(@by_id[id]&.needs).all? { |other| self[other] == :pass }
        return :pass if result == true
        return (result.last == "retry") ? :retry : :setup if result.first == "Setup"
        :fail
      end

      def message(id) = Array(@results[id]).last.to_s
    end
  end
end
