# frozen_string_literal: true

module Lint
  # Finds lines with too many columns and files with too many lines.
  #
  #   Lint::Columns.new.findings
  #   # => ["lib/neverblock/cli/serve.rb:12: 131 columns, 120 are allowed"]
  #
  # A column is a character, however many bytes it has.
  class Columns
    FOLDERS = %w[lib ext].freeze
    TYPES = %w[.c .h .rb .tt].freeze
    # The most columns of a line, and the most lines of a file.
    COLUMNS, LINES = 120, 400
    ROOT = File.expand_path("..", __dir__)

    # @param root [String] the project's folder
    # @return [Array<String>] a line for each place: where it is, how much it has, how much is allowed
    def findings(root = ROOT)
      paths = FOLDERS.flat_map { |folder| Dir.glob("#{folder}/**/*{#{TYPES.join(",")}}", base: root) }
      paths.sort.flat_map do |path|
        look(File.readlines(File.join(root, path), chomp: true, encoding: "UTF-8"), path)
      end
    end

    private

    def look(lines, path)
      found = lines.each.with_index(1).filter_map do |line, number|
        "#{path}:#{number}: #{line.length} columns, #{COLUMNS} are allowed" if line.length > COLUMNS
      end
      found << "#{path}: #{lines.size} lines, #{LINES} are allowed" if lines.size > LINES
      found
    end
  end
end
