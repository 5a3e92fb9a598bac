# frozen_string_literal: true

require "json"
require "rbconfig"
require_relative "../clock"
require_relative "failure"

module NeverBlockTest
  class Suite
    # One run: a test program and all of its processes, below a warden (warden.rb). Its output is in one file, its
    # numbers in another.
    class Child
      include Clock

      # Seconds for one test. A run with a longer test counts as hanging, and is killed.
      LIMIT = Integer(ENV.fetch("NEVERBLOCK_TEST_LIMIT", "1200"))
      # Seconds until the first test begins, enough for a busy machine.
      START = [LIMIT, 120].max
      WARDEN = File.join(__dir__, "warden.rb")

      # @param name [String] the name under which its numbers are summed
      # @param title [String] the first line of its output
      # @param file [String] the path of its files, without an extension
      # @param tally [Boolean] whether it reports its own numbers; otherwise it counts as one test
      # @param repeat [#call, nil] reruns one of its tests
      def initialize(name, command, environment:, tally:, file:, title: name, repeat: nil)
        @name = name
        @title = title
        @repeat = repeat
        @tally = tally
        @environment = environment
        @file = file
        @began = now
        File.write(log, "\n== #{title}, Ruby #{RUBY_VERSION}\n")
        @pid = start(command, {"RUBYOPT" => ENV["RUBYOPT"], **environment, "NEVERBLOCK_TALLY" => file, "NEVERBLOCK_TALLY_NAME" => name})
        @shown = 0
      end

      # Also kills a hanging child, so call this often.
      def runs?
        return false if @ended
        _, status = Process.wait2(@pid, Process::WNOHANG)
        if status
          ended(status)
        elsif !@hung && stands_still?
          hangs
        end
        !@ended
      end

      # Prints its output since the last call.
      def show
        text = File.binread(log, nil, @shown).to_s
        @shown += text.bytesize
        $stdout.write(text)
        $stdout.flush
      end

      # Kills it with all of its processes, which get some time to clean up.
      def kill
        return unless runs?
        @control.close
        ended(Process.wait2(@pid).last)
      end

      # Lines of output that a failure without a report quotes, at most.
      QUOTED = 8

      # A child without a report, or with an error exit and no failure in its report, is a failure itself.
      # @return [Hash{Symbol=>Object}] :name, :passed, :failed, :skipped, :seconds, :processor (seconds),
      #   :failures ({Failure}s), :repeat, :tests (their records), :left (processes)
      def outcome
        good = @status&.success? || false
        kind = good ? "passed" : "failed"
        reports = @tally ? tallies : [{"passed" => 0, "failed" => 0, "skipped" => 0, kind => 1}]
        sum = %w[passed failed skipped].to_h { |key| [key.to_sym, reports.sum { |report| report.fetch(key) }] }
        sum[:failed] += 1 if sum[:failed].zero? && (reports.empty? || !good)
        failures = reports.flat_map { |report| failures_of(report) }
        failures << Failure.new(message: @hung ? "did not end; the test that was on: #{current}" : "ended badly (#{ending}): #{last_lines}") if failures.size < sum[:failed]
        tests = reports.flat_map { |report| report.fetch("tests", []) }
        {name: @name, seconds: @seconds, processor:, failures:, repeat: @repeat, left:, tests:, **sum}
      end

      private

      # The warden needs no gems, and Ruby starts in a tenth of the time without them.
      def start(command, environment)
        input, @control = IO.pipe
        environment = {**environment, "NEVERBLOCK_WARDEN_RUBYOPT" => environment["RUBYOPT"], "RUBYOPT" => nil}
        Process.spawn(environment, RbConfig.ruby, "--disable=gems", WARDEN, @file, *command,
          chdir: ROOT, in: input, out: [log, "a"], err: %i[child out], pgroup: true)
      ensure
        input.close
      end

      def log = "#{@file}.log"

      # Each test writes its name into the file when it begins.
      def stands_still?
        Time.now - File.mtime("#{@file}.current") > LIMIT
      rescue Errno::ENOENT
        now - @began > START
      end

      def tallies = File.exist?(@file) ? File.readlines(@file).map { |line| JSON.parse(line) } : []

      def failures_of(report)
        report.fetch("failures", []).map { |failure| Failure.new(**failure.transform_keys(&:to_sym), seed: report["seed"], variables: @environment) }
      end

      def processor = File.exist?("#{@file}.processor") ? File.read("#{@file}.processor").to_f : 0.0

      def ending = File.exist?("#{@file}.end") ? File.read("#{@file}.end") : @status.to_s

      # Those before its own last line, which tells its times.
      def last_lines
        File.read(log, encoding: Encoding::UTF_8).scrub.lines(chomp: true)[..-2].reject(&:empty?).last(QUOTED).join("\n")
      end

      def left = File.exist?("#{@file}.left") ? File.readlines("#{@file}.left", chomp: true) : []

      def ended(status)
        @status = status
        @seconds = now - @began
        @control.close
        File.write(log, format("\n== %s took %.0f s, %.0f s of processor time\n", @title, @seconds, processor), mode: "a")
        @ended = true
      end

      # Aborts it, which makes Ruby print its C and Ruby backtraces.
      def hangs
        @hung = true
        File.write(log, "#{@name} is killed, since a test did not end within #{LIMIT} s (NEVERBLOCK_TEST_LIMIT):\n#{current}\n", mode: "a")
        @control.puts "hangs"
      end

      def current = File.exist?("#{@file}.current") ? File.read("#{@file}.current") : "(none)"
    end
  end
end
