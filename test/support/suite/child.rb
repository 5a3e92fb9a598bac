# frozen_string_literal: true

require "json"

module NeverBlockTest
  class Suite
    # One run: a process group, its output in a file, its numbers in another.
    class Child
      # Seconds after which a run is taken to hang and is killed.
      LIMIT = Integer(ENV.fetch("NEVERBLOCK_TEST_LIMIT", "1200"))

      # @param file [String] where its files are, without an ending
      # @param tally [Boolean] whether it reports its own numbers; otherwise it counts as one test
      # @param repeat [#call, nil] starts a test of it once more
      def initialize(name, command, environment:, tally:, file:, repeat: nil)
        @name = name
        @repeat = repeat
        @tally = tally
        @file = file
        @began = now
        environment = environment.merge("NEVERBLOCK_TALLY" => file, "NEVERBLOCK_TALLY_NAME" => name)
        File.write(log, "\n== #{name}, Ruby #{RUBY_VERSION}\n")
        @pid = Process.spawn(environment, *command, chdir: ROOT, in: File::NULL, out: [log, "a"], err: %i[child out], pgroup: true)
        @shown = 0
      end

      # Kills one that hangs; so ask often.
      def runs?
        return false if @ended
        _, status = Process.wait2(@pid, Process::WNOHANG)
        if status
          ended(status)
        elsif now - @began > LIMIT
          hangs
        end
        !@ended
      end

      # Prints what it has said since the last time.
      def show
        text = File.binread(log, nil, @shown).to_s
        @shown += text.bytesize
        $stdout.write(text)
        $stdout.flush
      end

      # With all that it has started, which gets a while to clean up.
      def kill
        end_group(:TERM) if runs?
      end

      # One that reported nothing, or ended badly without a failure to show for it, is a failure itself.
      # @return [Hash{Symbol=>Object}] :name, :passed, :failed, :skipped, :seconds, :failures (texts),
      #   :again (text, file and name of each failed test), :repeat, :slowest (seconds and name)
      def outcome
        good = @status&.success? || false
        kind = good ? "passed" : "failed"
        reports = @tally ? tallies : [{"passed" => 0, "failed" => 0, "skipped" => 0, kind => 1}]
        sum = %w[passed failed skipped].to_h { |key| [key.to_sym, reports.sum { |report| report.fetch(key) }] }
        sum[:failed] += 1 if sum[:failed].zero? && (reports.empty? || !good)
        failures = reports.flat_map { |report| report.fetch("failures", []) }
        failures << (@hung ? "did not end; the test that was on: #{current}" : "ended badly (#{@status}), see above") if failures.size < sum[:failed]
        lists = %w[again slowest].to_h { |key| [key.to_sym, reports.flat_map { |report| report.fetch(key, []) }] }
        {name: @name, seconds: @seconds, failures:, repeat: @repeat, **lists, **sum}
      end

      private

      def log = "#{@file}.log"

      def tallies = File.exist?(@file) ? File.readlines(@file).map { |line| JSON.parse(line) } : []

      def ended(status)
        @status = status
        @seconds = (now - @began).round
        @ended = true
      end

      # Aborted, Ruby prints its C and Ruby backtraces.
      def hangs
        @hung = true
        File.write(log, "#{@name} did not end within #{LIMIT} s (NEVERBLOCK_TEST_LIMIT) and is killed. The test that was on:\n#{current}\n", mode: "a")
        end_group(:ABRT, only: @pid)
      end

      def current = File.exist?("#{@file}.current") ? File.read("#{@file}.current") : "(none)"

      def end_group(signal, only: -@pid)
        Process.kill(signal, only)
        deadline = now + 10
        sleep 0.05 until (gone = Process.wait2(@pid, Process::WNOHANG)) || now > deadline
        begin
          Process.kill(:KILL, -@pid) # a hanging test may have left children
        rescue Errno::ESRCH
          # it has not
        end
        Process.wait(@pid) unless gone
        ended(nil)
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
