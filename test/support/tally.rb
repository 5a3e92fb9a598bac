# frozen_string_literal: true

# Reports the result of a test run to the process that started it. If NEVERBLOCK_TALLY names a file, one line of JSON is
# appended to it at the end:
#
#   {"name":"unit epoll","passed":120,"failed":1,"skipped":2,"seed":7,
#    "failures":[{"message":"TaskTest#test_x: Expected 1 …","file":"test/unit/task_test.rb","test":"TaskTest#test_x"}],
#    "tests":[{"file":"test/unit/task_test.rb","test":"TaskTest#test_x","seconds":0.1,"processor":0.1,"mark":null}, …]}
#
# During the run, FILE.current holds the name of the running test, so that the cause of a killed run can be found.
require "json"
require_relative "marks"

module NeverBlockTest
  # A Minitest reporter.
  class Tally < Minitest::AbstractReporter
    # @param path [String] the file to append to
    # @param name [String] the run's name
    def initialize(path, name)
      super()
      @path = path
      @name = name
      @results = Hash.new(0)
      @failures = []
      @tests = []
      @process = Process.pid
    end

    def prerecord(test_class, method)
      File.write("#{@path}.current", "#{test_class}##{method}\n")
      @before = processor
    end

    def record(result)
      test = "#{result.klass}##{result.name}"
      @results[verdict(result)] += 1
      @tests << {file: file(result), test:, seconds: result.time.round(3), processor: (processor - @before).round(3), mark: Marks.of(test_class(result), result.name)}
      return unless verdict(result) == :failed
      @failures << {message: "#{test}: #{result.failure.message}", file: file(result), test:}
    end

    def report
      return unless Process.pid == @process # a forked child reports nothing
      line = {name: @name, **%i[passed failed skipped].to_h { |key| [key, @results[key]] }, seed: Minitest.seed, failures: @failures, tests: @tests}
      File.write(@path, "#{JSON.generate(line)}\n", mode: "a")
    end

    private

    # @return [Float] seconds of this process and of its children that have ended
    def processor = Process.times.to_a.sum

    def test_class(result) = Object.const_get(result.klass)

    def file(result) = Marks.file(test_class(result)).to_s.delete_prefix(File.join(ROOT, ""))

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
