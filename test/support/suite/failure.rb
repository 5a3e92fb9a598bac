# frozen_string_literal: true

require "shellwords"

module NeverBlockTest
  class Suite
    # A failed test, or a run that ended without a report. As a String it is the message, the seed of the run, the command
    # that repeats the test, and how the test fared by itself.
    #
    #   Failure.new(message: "TaskTest#test_x: Expected 1", file: "test/unit/task_test.rb", test: "TaskTest#test_x", seed: 7).to_s
    #   # => "TaskTest#test_x: Expected 1 (seed 7; bin/ruby -Itest test/unit/task_test.rb -n 'TaskTest#test_x' --seed 7)"
    class Failure < Struct.new(:message, :file, :test, :seed, :variables, :alone)
      # Characters of a message.
      MOST = 340

      # Variables of a run's environment that a repetition needs.
      REPEATED = %w[NEVERBLOCK_ENGINE NEVERBLOCK_TEST_LIBRARY BUNDLE_GEMFILE].freeze

      # @param passed [Integer] reruns that passed
      # @param times [Integer] reruns
      # @return [Failure] with the result of reruns
      def rerun(passed, times) = dup.tap { |failure| failure.alone = "by itself it passes #{passed} of #{times} times" }

      # @return [Boolean] whether it is a test's, and not a whole run's
      def test? = !test.nil?

      def to_s
        notes = [("seed #{seed}" if seed), (command if test?), alone].compact
        notes.empty? ? brief : "#{brief} (#{notes.join("; ")})"
      end

      private

      def brief
        text = message.split.join(" ")
        (text.size > MOST) ? "#{text[0, MOST]} …" : text
      end

      def command
        set = REPEATED.filter_map { |name| "#{name}=#{variables[name].shellescape}" if variables&.[](name) }
        library = variables&.[]("NEVERBLOCK_TEST_LIBRARY")
        [*set, "bin/ruby", *("-I#{library.shellescape}" if library), "-Itest", file.shellescape, "-n", quoted(test), *("--seed #{seed}" if seed)].join(" ")
      end

      # Quotes are easier to read than backslashes.
      def quoted(text) = text.include?("'") ? text.shellescape : "'#{text}'"
    end
  end
end
