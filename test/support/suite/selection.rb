# frozen_string_literal: true

module NeverBlockTest
  class Suite
    # The selection on a command line: files, folders, lines of files, and parts of test names.
    #
    #   selection = Selection.new(["test/unit/task_test.rb:30", "timeout"])
    #   selection.files      # => ["test/unit/task_test.rb"]
    #   selection.patterns   # => ["timeout", "\\ATaskTest#test_value\\z"]
    class Selection
      ROOT = File.expand_path("../../..", __dir__)
      LINE = /\A(.+\.rb):(\d+)\z/

      # @return [Array<String>, nil] paths below the project's folder; nil if none was named
      attr_reader :files

      # @return [Array<String>] sources of regular expressions; a test's name must match one of them, if there are any
      attr_reader :patterns

      # @param words [Array<String>]
      def initialize(words)
        lines, words = words.partition { |word| word.match?(LINE) && !File.exist?(File.join(ROOT, word)) }
        names, @patterns = words.partition { |word| word.end_with?(".rb") || File.exist?(File.join(ROOT, word)) }
        @patterns += lines.map { |word| at(*word.match(LINE).captures) }
        names += lines.map { |word| word[LINE, 1] }
        @files = names.flat_map { |name| below(name) }.uniq if names.any?
      end

      # @return [Boolean] whether anything was named
      def any? = !files.nil? || patterns.any?

      # @return [Array<String>] for Minitest
      def options = patterns.empty? ? [] : ["-n", "/#{patterns.join("|")}/"]

      private

      def below(name)
        path = File.expand_path(name, ROOT)
        (File.directory?(path) ? Dir[File.join(path, "**", "*_test.rb")] : [path]).map { |file| file.delete_prefix("#{ROOT}/") }
      end

      # The test that contains the line: the last that begins above it.
      def at(file, line)
        tests = File.foreach(File.expand_path(file, ROOT)).first(line.to_i).filter_map { |text| text[/^\s*def (test_\w+[?!]?)/, 1] }
        raise ArgumentError, "no test begins above line #{line} of #{file}: name a line inside of one" if tests.empty?
        "\\A#{tests.last}\\z"
      end
    end
  end
end
