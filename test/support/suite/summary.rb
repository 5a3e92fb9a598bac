# frozen_string_literal: true

require "json"

module NeverBlockTest
  class Suite
    # The end of a test run: a line for each part, the slowest tests, leftover processes, the failures, and the sum as
    # the last line.
    #
    #   Summary.new(runs).print
    class Summary
      # How many of the slowest tests are listed.
      SLOWEST = 20

      # Seconds. Slower tests need a mark (test/support/marks.rb).
      UNMARKED = 0.25

      # @param runs [Array<Hash>] outcomes of children
      def initialize(runs)
        @runs = runs
      end

      # @return [Hash{Symbol=>Integer}] :passed, :failed, :skipped
      def sum = add(@runs)

      # @return [Array<Hash>] a record of each test that ran: "run", "file", "test", "seconds", "processor", "mark"
      def tests = @tests ||= @runs.flat_map { |run| run[:tests].map { |test| {"run" => run[:name], **test} } }

      # @return [void]
      def print
        puts
        @runs.group_by { |run| run[:name] }.each do |name, runs|
          puts format("%<name>-24s %<passed>6d passed %<failed>4d failed %<skipped>4d skipped %<seconds>4d s, processor %<processor>4d s", name:, **times(runs), **add(runs))
        end
        slowest
        unmarked
        @runs.each { |run| run[:left].each { |process| puts "left behind by #{run[:name]}, and killed: #{process}" } }
        @runs.each { |run| run[:failures].each { |failure| puts "failed: #{run[:name]}: #{failure}" } }
        puts format("%<passed>d passed, %<failed>d failed, %<skipped>d skipped", sum)
        $stdout.flush
      end

      # Writes the files that the environment names: NEVERBLOCK_TEST_LIST gets the sorted runs and names of all tests,
      # NEVERBLOCK_TEST_TIMES a line of JSON for each.
      # @return [void]
      def write
        path = ENV["NEVERBLOCK_TEST_LIST"] and File.write(path, tests.map { |test| "#{test["run"]}\t#{test["test"].gsub("\n", "\\n")}\n" }.uniq.sort.join)
        path = ENV["NEVERBLOCK_TEST_TIMES"] and File.write(path, tests.map { |test| "#{JSON.generate(test)}\n" }.join)
      end

      private

      def add(runs) = %i[passed failed skipped].to_h { |key| [key, runs.sum { |run| run[key] }] }

      def times(runs) = %i[seconds processor].to_h { |key| [key, runs.sum { |run| run[key] }] }

      def slowest
        tests.group_by { |test| test["test"] }.values.map { |runs| runs.max_by { |test| test["seconds"] } }
          .max_by(SLOWEST) { |test| test["seconds"] }.each { |test| puts line("slow", test) if test["seconds"] > UNMARKED }
      end

      # Lists slow tests without a mark. It fails nothing, since a busy machine makes any test slow. A test's fastest
      # run counts.
      def unmarked
        over = tests.reject { |test| test["mark"] }.group_by { |test| test["test"] }.values
          .map { |runs| runs.min_by { |test| test["seconds"] } }.select { |test| test["seconds"] > UNMARKED }
        return if over.empty?
        puts "#{over.size} tests took more than #{UNMARKED} s and are not marked as slow (test/support/marks.rb), such as:"
        over.max_by(SLOWEST) { |test| test["seconds"] }.each { |test| puts line("unmarked", test) }
      end

      def line(word, test) = format("%<word>s: %<run>-20s %<seconds>6.1f s %<name>s", word:, name: test["test"], run: test["run"], seconds: test["seconds"])
    end
  end
end
