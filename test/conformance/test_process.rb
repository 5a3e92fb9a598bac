# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"

module Conformance
  # The result of one test. status: "passed", "failed", "skipped" (by the test itself), "hung" or "crashed"; detail: a
  # backtrace, or the end of the output.
  Result = Struct.new(:test, :status, :assertions, :time, :message, :detail) do
    def passed? = status == "passed"

    def skipped? = status == "skipped"

    def good? = passed? || skipped?

    # The text for the report of a failure.
    def report = [message, detail].compact.join("\n")

    # Whether the test ended the whole process.
    def fatal? = %w[hung crashed].include?(status)
  end

  # One process that runs tests of one of Ruby's files, with a time limit for each test. Its output is kept in a file.
  #
  #   run = Conformance::TestProcess.new(tree, "test/ruby/test_io.rb", surroundings: "neverblock")
  #   run.call
  #   run.results  # => [#<struct Conformance::Result ...>, ...]
  class TestProcess
    ROOT = SourceTree::ROOT
    CHILD = File.join(__dir__, "child", "child.rb")
    # Variables that Bundler or RubyGems set for this process, and not for Ruby's tests.
    UNSET = ENV.keys.grep(/\A(RUBYOPT|RUBYLIB|GEM_|BUNDLE|MAKEFLAGS|MFLAGS|NEVERBLOCK_TALLY)/).to_h { |key| [key, nil] }.freeze
    # Seconds for one test. The slowest of Ruby's own take about 20 on a busy machine, and 90 on one that is slow at memory.
    LIMIT = Integer(ENV.fetch("CONFORMANCE_LIMIT", "300"))

    # @return [Array<Result>] of the tests that ran, in their order
    attr_reader :results
    # @return [Array<String>, nil] all selected tests; nil if the file could not be loaded
    attr_reader :tests

    # @param surroundings [String] see child/surroundings.rb
    # @param only [Array<String>, nil] the tests to run, nil for all
    # @param except [Array<String>] tests to leave out
    # @param limit [Numeric] seconds for one test
    # @param folder [String, nil] the folder of the file, if not in the tree
    def initialize(tree, file, surroundings:, extensions:, only: nil, except: [], limit: LIMIT, folder: nil)
      @tree = tree
      @file = folder ? File.join(folder, File.basename(file)) : tree.join(file)
      @plan = {surroundings:, only:, except:}
      @extensions = extensions
      @limit = limit
      @results = []
    end

    # Runs it to its end, or until it is killed.
    # @return [self]
    def call
      # Short, since the paths of unix sockets are limited to some 100 characters.
      Dir.mktmpdir("nb") do |folder|
        @folder = folder
        Dir.mkdir(scratch)
        File.write(plan_path, JSON.generate(@plan))
        File.write(events_path, "")
        @status = watch(Process.spawn(environment, *command, chdir: scratch, in: File::NULL, out: log_path, err: %i[child out], pgroup: true, rlimit_core: 0))
        read_events
        conclude
        @output = File.binread(log_path).scrub("?")
      end
      self
    end

    # @return [Boolean] whether it ran all selected tests
    def complete? = @ended && @current.nil? && !@load_failed

    # @return [String] the last lines of its output
    def output(lines = 25) = @output.lines.last(lines).join

    # @return [String, nil] the error outside of any test
    def problem
      if @load_failed || @tests.nil? then "could not be loaded (#{@status})"
      elsif !@ended && @current.nil? && @results.none?(&:fatal?) then "ended between two tests (#{@status})"
      end
    end

    private

    def plan_path = File.join(@folder, "plan")

    def events_path = File.join(@folder, "events")

    def log_path = File.join(@folder, "log")

    def scratch = File.join(@folder, "t")

    def environment
      UNSET.merge("RUBY" => RbConfig.ruby, "RUBYLIB" => @extensions, "TMPDIR" => scratch, "RUBY_TEST_TIMEOUT_SCALE" => ENV.fetch("RUBY_TEST_TIMEOUT_SCALE", "2"),
        "NEVERBLOCK_LIB" => ENV.fetch("NEVERBLOCK_LIB", File.join(ROOT, "lib")), "CONFORMANCE_SOURCE" => @tree.path,
        "CONFORMANCE_PLAN" => plan_path, "CONFORMANCE_EVENTS" => events_path)
    end

    def command
      paths = [@tree.join("tool/lib"), @tree.join("test/lib")]
      [RbConfig.ruby, "--disable=gems", *paths.map { |path| "-I#{path}" }, "-r#{CHILD}", @tree.join("test/runner.rb"), @file, "--test-order=alpha", "-v"]
    end

    def watch(pid)
      until (status = Process.wait2(pid, Process::WNOHANG))
        read_events
        return kill(pid) if @current && now - @started > @limit
        sleep 0.05
      end
      status.last
    ensure
      # Ends processes that a test has left running.
      kill_group(:KILL, pid)
    end

    # Aborting makes Ruby print the Ruby and C backtraces of all its threads.
    def kill(pid)
      @hung = true
      kill_group(:ABRT, pid)
      40.times do
        break if Process.wait2(pid, Process::WNOHANG)
        sleep 0.05
      rescue Errno::ECHILD
        break
      end
      kill_group(:KILL, pid)
      Process.wait(pid)
      nil
    rescue Errno::ECHILD
      nil
    end

    def kill_group(signal, pid)
      Process.kill(signal, -pid)
    rescue Errno::ESRCH
      # the group has no process left
    end

    def read_events
      text = File.binread(events_path)
      lines = text.byteslice(@read.to_i..).to_s.lines.take_while { |line| line.end_with?("\n") }
      @read = @read.to_i + lines.sum(&:bytesize)
      lines.each { |line| take(JSON.parse(line)) }
    end

    def take(event)
      case event.fetch("event")
      when "tests" then @tests = event.fetch("tests")
      when "start"
        @current = event.fetch("test")
        @started = now
      when "done"
        @current = nil
        @results << Result.new(*event.values_at("test", "status", "assertions", "time", "message", "detail"))
      when "end"
        @ended = true
        @load_failed = event.fetch("load_failed")
      end
    end

    def conclude
      return unless @current
      log = File.binread(log_path).scrub("?")
      status, message = @hung ? ["hung", "did not end within #{@limit} s"] : ["crashed", [ending, log[EXCEPTION, 1]].compact.join(": ")]
      @results << Result.new(@current, status, 0, (now - @started).round(3), message, (log[/^.*\[BUG\].*/m] || log.lines.last(15).join).lines.first(40).join)
      @current = nil
    end

    # The message and class of an exception that ends a process, as Ruby prints them.
    EXCEPTION = /': (.*\([A-Z][\w:]*\))$/
    private_constant :EXCEPTION

    def ending = "the process ended: #{@status.to_s.sub(/\Apid \d+ /, "")}"

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
