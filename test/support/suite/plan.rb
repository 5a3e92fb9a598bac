# frozen_string_literal: true

require "fileutils"
require "json"
require_relative "declarations"

module NeverBlockTest
  class Suite
    # Divides test files into chunks of about the same duration, so that each processor is busy until the end. Durations
    # are kept from run to run in tmp/test_times.json; without one, the file's text gives an estimate.
    #
    #   plan = Plan.new
    #   plan.chunks(files)      # => [["test/unit/task_test.rb", …], …]
    #   plan.seconds(files)     # => 12.5
    #   plan.keep(tests)        # for the next run
    class Plan
      ROOT = Declarations::ROOT
      KEPT = File.join(ROOT, "tmp", "test_times.json")

      # Target duration of a chunk, in seconds; a longer file is a chunk of its own.
      CHUNK = 30.0

      # Seconds to start a process, including a server for files that need one.
      START = 1.0

      # Seconds for a test that has never run here, unmarked and marked.
      USUAL = 0.05
      SLOW = 1.5

      # Files that share their process's server.
      SHARED = %r{\Atest/(?:integration|programs)/(postgres|mysql|cache/(?:redis|remote_\w+)_test)}

      # Virtual time doesn't jump while a server or a thread that another file's tests left behind may be at work. So such
      # files have processes of their own.
      VIRTUAL = /include NeverBlockTest::(?:VirtualTime|VirtualLoop|ServedInTime)\b|Testing::VirtualClock\b/

      # @param path [String] where the times are kept
      def initialize(path = KEPT)
        @path = path
        @kept = File.exist?(path) ? JSON.parse(File.read(path)) : {}
      rescue JSON::ParserError
        @kept = {} # another run was writing the file
      end

      # @param files [Array<String>]
      # @param all [Boolean] whether slow tests run too
      # @return [Array<Array<String>>] the same files; those that share a server are together
      def chunks(files, all: true)
        files.group_by { |file| file[SHARED, 1] || virtual?(file) }.values.flat_map { |group| divide(group, all) }
      end

      # @return [Float] the total duration of these files, in seconds
      def seconds(files, all: true) = START + files.sum { |file| seconds_of(file, all) }

      # @param tests [Array<Hash>] records with "run", "file", "seconds" and "mark"; the slowest run of a file counts
      # @return [void]
      def keep(tests)
        tests.select { |test| test["file"].start_with?("test/") }.group_by { |test| test["file"] }.each do |file, records|
          sums = records.group_by { |test| test["mark"] ? "marked" : "unmarked" }.transform_values { |list|
            list.group_by { |test| test["run"] }.values.map { |run| run.sum { |test| test["seconds"] } }.max.round(3)
          }
          @kept[file] = (@kept[file] || {}).merge(sums)
        end
        FileUtils.mkdir_p(File.dirname(@path))
        File.write("#{@path}.#{Process.pid}", JSON.pretty_generate(@kept.sort.to_h))
        File.rename("#{@path}.#{Process.pid}", @path)
      end

      private

      def virtual?(file) = File.read(File.join(ROOT, file), encoding: Encoding::UTF_8).match?(VIRTUAL)

      # Longest first, each into the first chunk with room.
      def divide(files, all)
        chunks = []
        files.sort_by { |file| [-seconds_of(file, all), file] }.each do |file|
          chunk = chunks.find { |others| (others + [file]).sum { |other| seconds_of(other, all) } <= CHUNK }
          chunk ? chunk << file : chunks << [file]
        end
        chunks
      end

      def seconds_of(file, all)
        kinds = all ? %w[unmarked marked] : %w[unmarked]
        return @kept[file].values_at(*kinds).sum(&:to_f) if @kept[file]
        declared = Declarations.of(file)
        return declared.seconds if all && declared.seconds
        text = File.read(File.join(ROOT, file), encoding: Encoding::UTF_8)
        tests = text.scan(/^ *def test_/).size
        marked = declared.slow ? tests : text.scan(/^ *(?:slow|chaos) "/).size
        (tests - marked) * USUAL + (all ? marked * SLOW : 0)
      end
    end
  end
end
