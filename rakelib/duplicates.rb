# frozen_string_literal: true

# The checks behind `rake lint` that are our own.
module Lint
  # Finds code that stands twice: {LINES} lines in a row that are the same but for indentation, blank lines and comments.
  #
  #   Lint::Duplicates.new.findings.each { |finding| puts finding }
  #   # lib/neverblock/api/run.rb:10-24 stands also at lib/neverblock/scope.rb:40
  #
  # Tests may repeat code: each test should be readable in one place. Signatures repeat their subject.
  class Duplicates
    ROOT = File.expand_path("..", __dir__)
    LINES = 12
    FOLDERS = %w[benchmark bin demo examples exe ext lib rakelib script tools].freeze
    OF_C = %r{\A(?://|/\*|\*(?:[\s/]|\z))}
    OF_RUBY = /\A#/ # and of shells
    COMMENTS = {".c" => OF_C, ".h" => OF_C, ".js" => OF_C, ".rb" => OF_RUBY, ".rake" => OF_RUBY, ".ru" => OF_RUBY, ".sh" => OF_RUBY, "" => OF_RUBY}.freeze
    private_constant :FOLDERS, :OF_C, :OF_RUBY, :COMMENTS

    # @param root [String] the folder with the files
    def initialize(root: ROOT)
      @code = paths(root).to_h { |path| [path, code(path, File.read(File.join(root, path)).scrub)] }
    end

    # @return [Array<String>] a line for each; empty: all is well
    def findings
      seen = {} # LINES lines => path and index where they stand first
      @code.flat_map do |path, lines|
        found = []
        at = 0
        while at + LINES <= lines.size
          place = seen[lines[at, LINES].map(&:first)] ||= [path, at]
          next at += 1 if place == [path, at]
          size = common(path, at, *place)
          found << "#{path}:#{lines[at].last}-#{lines[at + size - 1].last} stands also at #{place.first}:#{@code[place.first][place.last].last}"
          at += size
        end
        found
      end
    end

    private

    # Gems of the benchmarks are installed below vendor/.
    def paths(root)
      files = Dir.glob("{#{FOLDERS.join(",")}}/**/*", base: root).grep_v(%r{/vendor/})
      files.select { |path| COMMENTS.key?(File.extname(path)) && File.file?(File.join(root, path)) }.sort
    end

    # @return [Array<Array(String, Integer)>] each line of code, and its number
    def code(path, source)
      lines = source.each_line.with_index(1).map { |text, number| [text.strip, number] }
      lines.reject { |text, _| text.empty? || text.match?(COMMENTS.fetch(File.extname(path))) }
    end

    # @return [Integer] how many lines are the same from here on
    def common(path, at, other, start)
      mine = @code[path].drop(at).lazy.map(&:first)
      mine.zip(@code[other].drop(start).map(&:first)).take_while { |one, another| one == another }.count
    end
  end
end
