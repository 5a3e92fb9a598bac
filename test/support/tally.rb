# frozen_string_literal: true

# Tells the process that started a test run how it went. Where the environment
# names a file in NEVERBLOCK_TALLY, one JSON line is appended to it at the end:
#
#   {"name":"unit epoll","passed":120,"failed":1,"skipped":2,"failures":["TaskTest#test_x: Expected 1 …"]}
#
# and while the run lasts, FILE.current holds the name of the test that is on,
# which is what to look at when a run had to be killed.
require "json"

module NeverBlockTest
  # A Minitest reporter.
  class Tally < Minitest::AbstractReporter
    # @param path [String] the file to append to
    # @param name [String] what this run calls itself
    def initialize(path, name)
      super()
      @path = path
      @name = name
      @results = Hash.new(0)
      @failures = []
      @again = []
      @times = []
      @process = Process.pid
    end

    def prerecord(test_class, method)
      File.write("#{@path}.current", "#{test_class}##{method}\n")
    end

    def record(result)
      @results[verdict(result)] += 1
      @times << [result.time, "#{result.klass}##{result.name}"]
      return unless verdict(result) == :failed
      @failures << "#{result.klass}##{result.name}: #{result.failure.message}"
      @again << [@failures.last, result.source_location.first, "#{result.klass}##{result.name}"]
    end

    def report
      return unless Process.pid == @process # a forked child has nothing to say
      line = {name: @name, passed: @results[:passed], failed: @results[:failed], skipped: @results[:skipped], failures: @failures, again: @again, slowest: @times.max(20)}
      File.write(@path, "#{JSON.generate(line)}\n", mode: "a")
    end

    private

    def verdict(result)
      if result.skipped? then :skipped
      else result.passed? ? :passed : :failed
      end
    end
  end
end

if (path = ENV["NEVERBLOCK_TALLY"])
  Minitest.extensions << "neverblock_tally"
  Minitest.define_singleton_method(:plugin_neverblock_tally_init) do |_options|
    reporter << NeverBlockTest::Tally.new(path, ENV.fetch("NEVERBLOCK_TALLY_NAME", "tests"))
  end
end
