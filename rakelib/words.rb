# frozen_string_literal: true

require "find"
require "yaml"

module Lint
  # Finds old names and phrases in the code and the documentation, by the table in words.yml.
  #
  #   Lint::Words.new.findings
  #   # => ["lib/neverblock/cli/serve.rb:12: \"Order\": write ControlCommand (rakelib/words.yml)"]
  #
  # The CHANGELOG and the table itself are left out, since they have to name old words, and installed gems (vendor).
  class Words
    FOLDERS = %w[lib ext exe bin sig docs].freeze
    TYPES = %w[.c .h .md .rb .rbs .tt .yml].freeze

    # One row of the table: the old pattern, the better words, and the folders in which the row counts.
    Entry = Data.define(:pattern, :better, :folders) do
      # @param path [String] below the project
      # @return [Boolean] whether the row counts there
      def covers?(path) = folders.any? { |folder| path == folder || path.start_with?("#{folder}/") }
    end
    private_constant :Entry

    ROOT = File.expand_path("..", __dir__)
    TABLE = "rakelib/words.yml"

    # @param rows [Array<Hash{String=>Object}>] with "old", "better" and perhaps "in"
    # @raise [ArgumentError] if a row lacks something
    def initialize(rows = YAML.safe_load_file(File.join(ROOT, TABLE)))
      @entries = rows.map { |row| entry(row) }
    end

    # @param root [String] the project's folder
    # @return [Array<String>] a line for each place: the file and line, the old words, the better ones
    def findings(root = ROOT)
      (FOLDERS | @entries.flat_map(&:folders)).flat_map { |folder| files(root, folder) }.uniq.sort.flat_map do |file|
        path = file.delete_prefix("#{root}/")
        entries = @entries.select { |entry| entry.covers?(path) }
        entries.empty? ? [] : look(File.read(file), path, entries)
      end
    end

    private

    def entry(row)
      old, better, folders = row.values_at("old", "better", "in")
      unless [old, better].all? { |text| String === text && !text.empty? } && (row.keys - %w[old better in]).empty?
        raise ArgumentError, "#{TABLE}: #{row.inspect} needs old: and better:, and may have in:, a folder or a list of them"
      end
      Entry.new(pattern: pattern(old), better:, folders: folders ? Array(folders) : FOLDERS)
    end

    # A pattern between slashes is a regular expression; other texts are whole words.
    def pattern(old)
      source = old[%r{\A/(.*)/\z}, 1]
      source ? Regexp.new(source) : /(?<!\w)#{Regexp.escape(old)}(?!\w)/
    end

    def files(root, folder)
      path = File.join(root, folder)
      return [path] if File.file?(path)
      return [] unless File.directory?(path)
      found = []
      Find.find(path) do |file|
        Find.prune if %w[vendor results].include?(File.basename(file)) # not ours, or not kept
        found << file if File.file?(file) && (TYPES.include?(File.extname(file)) || script?(file))
      end
      found
    end

    def script?(file) = File.extname(file).empty? && File.binread(file, 2) == "#!"

    def look(text, path, entries)
      text.each_line.with_index(1).flat_map do |line, number|
        entries.filter_map do |entry|
          found = line[entry.pattern] or next
          "#{path}:#{number}: #{found.inspect}: write #{entry.better} (#{TABLE})"
        end
      end
    end
  end
end
