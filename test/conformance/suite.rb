# frozen_string_literal: true

require "yaml"

module Conformance
  # A group of Ruby's test files, one line of the result.
  #
  #   Conformance::Suite.all(tree, ci: true).each { |suite| puts suite.name, suite.files }
  class Suite
    LIST = File.join(__dir__, "suites.yml")
    WAYS = %w[inside scheduler].freeze

    # @param tree [SourceTree]
    # @param ci [Boolean] only the part for every test run
    # @param only [Array<String>] names, or parts of file names; empty for all
    # @param engines [String, nil] "one", "every": only suites with that declaration; nil: all
    # @return [Array<Suite>] suites that have files
    def self.all(tree, ci: false, only: [], engines: nil)
      entries = YAML.safe_load_file(LIST).select { |entry| engines.nil? || entry.fetch("engines", "every") == engines }
      suites = entries.map { |entry| new(tree, entry, ci:, only:) }.reject { |suite| suite.files.empty? }
      return suites if suites.any?
      raise ArgumentError, "#{only.join(", ")} is neither the name of a suite nor a part of a file's name: see #{LIST}"
    end

    # @return [String] the subject of its tests
    attr_reader :name
    # @return [String] "inside" a NeverBlock fiber, or "scheduler": with ours in place of the sample
    attr_reader :way
    # @return [Array<String>] relative to the source tree
    attr_reader :files
    # @return [Array<String>] tests that are left out
    attr_reader :left_out

    def initialize(tree, entry, ci:, only:)
      @name = entry.fetch("name")
      @way = entry.fetch("way", "inside")
      raise ArgumentError, "#{LIST}: the suite #{name} has the unknown way #{way.inspect}" unless WAYS.include?(way)
      patterns = ci ? entry.fetch("ci", []) : entry.fetch("files")
      @left_out = ci ? entry.fetch("not_in_ci", []) : []
      @files = patterns.flat_map { |pattern| tree.files(pattern) }.uniq
      @files = @files.select { |file| only.any? { |word| file.include?(word) } } unless only.empty? || only.include?(name)
    end
  end
end
