# frozen_string_literal: true

# The most frequent words of each file, counted by a pipeline of shell commands.
# The pipelines of several files run at the same time; with more processors than
# one they are faster for it, and the Ruby program merely waits.
#
#   bin/ruby examples/word_counts.rb --top 3 docs/*.md
require "neverblock"
require "etc"
require "open3"
require "optparse"

class WordCounts
  # @param top [Integer] how many words of each file
  # @param limit [Integer] pipelines at a time
  def initialize(top:, limit: Etc.nprocessors)
    @top = top
    @limit = limit
  end

  # @param paths [Array<String>]
  # @return [Hash{String=>Array<Array(String, Integer)>}] words and their counts for each path
  # @raise [RuntimeError] when a command failed, such as for a missing file
  def call(paths)
    paths.zip(NeverBlock.concurrently(paths, limit: @limit) { |path| count(path) }).to_h
  end

  private

  # No shell, so no quoting: file names may contain anything.
  def count(path)
    commands = [["tr", "-cs", "[:alpha:]", "\\n"], ["grep", "."], ["sort"], ["uniq", "-c"], ["sort", "-k1,1nr", "-k2"]]
    Open3.pipeline_r(*commands, in: path) do |output, processes|
      words = output.each_line.map(&:split).map { |number, word| [word, number.to_i] }
      failed = processes.zip(commands).find { |process, command| !process.value.success? && command.first != "grep" }
      raise "#{failed.last.join(" ")} failed on #{path}: #{failed.first.value}" if failed
      words.first(@top)
    end
  end
end

top = 5
OptionParser.new do |parser|
  parser.banner = "Usage: word_counts.rb [--top COUNT] FILE..."
  parser.on("--top COUNT", Integer, "words of each file (5)") { |count| top = count }
end.parse!
abort "word_counts.rb: name at least one file" if ARGV.empty?

begin
  WordCounts.new(top:).call(ARGV).each do |path, words|
    puts "#{path}: #{words.map { |word, count| "#{word} #{count}" }.join(", ")}"
  end
rescue SystemCallError => error
  abort "word_counts.rb: #{error.message}"
end
