# frozen_string_literal: true

require "yaml"
require_relative "c_references"
require_relative "ruby_references"

# The checks behind `rake lint` that are our own.
module Lint
  # Finds references that lead upward: where a file includes, names or requires what its layer may not know. The layers are in
  # layers.yml.
  #
  #   Lint::Layers.new.findings.each { |finding| puts finding }
  #   # lib/neverblock/server/health.rb:12: server may not know postgres: NeverBlock::Postgres
  class Layers
    ROOT = File.expand_path("../..", __dir__)
    TABLE = File.join(__dir__, "layers.yml")
    LANGUAGES = {"c" => CReferences, "ruby" => RubyReferences}.freeze

    # @param root [String] the folder that the table's folders are in
    # @param table [Hash] as layers.yml has it
    def initialize(root: ROOT, table: YAML.load_file(TABLE))
      @root = root
      @table = table
    end

    # @return [Array<String>] a line for each, sorted; empty: all is well
    def findings = @table.flat_map { |language, part| Part.new(@root, part, LANGUAGES.fetch(language)).findings }

    # The layers of one language.
    class Part
      # @param root [String]
      # @param table [Hash]
      # @param references [Class] finds the references of a language
      def initialize(root, table, references)
        @root = root
        @folder = table.fetch("folder")
        @layers = table.fetch("layers")
        @exceptions = table.fetch("exceptions").to_h { |row| [row.values_at("file", "knows"), row.fetch("because")] }
        @references = references
      end

      # @return [Array<String>]
      def findings
        used = []
        found = @references.new(File.join(@root, @folder), self).flat_map { |path, line, text, layer|
          from = layer_of_path(path)
          next ["#{place(path)}: belongs to no layer of the table; give it one"] unless from
          next [] if layer.nil? || may_know?(from, layer)
          next [] if @exceptions.key?([path, layer]) && used.push([path, layer])
          ["#{place(path)}:#{line}: #{from} may not know #{layer}: #{text}"]
        }
        (found.uniq + stale(used)).sort
      end

      # @param from [String] a layer
      # @param to [String] another one
      # @return [Boolean]
      def may_know?(from, to) = from == to || beneath(from).include?(to)

      # @param layers [Enumerable<String>]
      # @return [String, nil] the one that all others may know
      def lowest(layers) = layers.find { |one| layers.all? { |other| may_know?(other, one) } }

      # @param path [String] below the folder
      # @return [String, nil]
      def layer_of_path(path) = longest("paths", path) { |prefix| path == prefix || path.delete_suffix(File.extname(path)) == prefix || path.start_with?("#{prefix}/") }

      # @param kind ["headers", "constants", "requires"]
      # @param name [String] of an external dependency
      # @param separator [String] between the parts of a name
      # @return [String, nil]
      def layer_of_foreign(kind, name, separator = "/") = longest(kind, name) { |prefix| name == prefix || name.start_with?("#{prefix}#{separator}") }

      private

      def place(path) = File.join(@folder, path)

      # @return [Array<String>] the layers that one knows
      def beneath(layer)
        @beneath ||= Hash.new { |all, name| all[name] = @layers.fetch(name).fetch("knows", []).flat_map { |one| [one, *all[one]] }.uniq }
        @beneath[layer]
      end

      def longest(kind, name)
        fitting = @layers.flat_map { |layer, row| row.fetch(kind, []).select { |prefix| yield prefix }.map { |prefix| [prefix.size, layer] } }
        fitting.max_by(&:first)&.last
      end

      def stale(used)
        (@exceptions.keys - used).map { |path, layer| "#{place(path)}: no longer needs its exception (#{layer}); take it out of the table" }
      end
    end
  end
end
