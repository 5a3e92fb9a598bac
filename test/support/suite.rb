# frozen_string_literal: true

# Runs groups of tests as child processes, one per engine, and adds up what they
# report. Used by the Rake tasks; it loads neither Minitest nor NeverBlock.
require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"

module NeverBlockTest
  # The runs of one `rake test`.
  class Suite
    ROOT = File.expand_path("../..", __dir__)
    ENGINES = %w[epoll uring poll].freeze
    # Seconds after which a run is taken to hang and is killed.
    LIMIT = Integer(ENV.fetch("NEVERBLOCK_TEST_LIMIT", "900"))

    # @param selection [Array<String>] files, and parts of test names; empty runs all
    def initialize(selection: [])
      @files, @patterns = selection.partition { |word| word.end_with?(".rb") || File.exist?(File.join(ROOT, word)) }
      @runs = []
      @owner = Process.pid
    end

    def selective? = @files.any? || @patterns.any?

    def any? = @runs.any? && Process.pid == @owner

    # Runs the test files that match, and that the selection asks for.
    # @param library [String, nil] a folder searched before lib/, with another build of the extension
    def run_files(part, pattern, engines: usable_engines(part), library: nil)
      files = Dir.glob(pattern, base: ROOT).sort
      files &= chosen_files if @files.any?
      return if files.empty?
      program = "ARGV.shift(#{files.size}).each { |file| require file }"
      options = @patterns.flat_map { |word| ["-n", "/#{word}/"] }
      paths = files.map { |file| File.join(ROOT, file) }
      engines.each do |engine|
        command = [RbConfig.ruby, "-w", *("-I#{library}" if library), "-Ilib", "-Itest", "-e", program, *paths, *options]
        run(part, engine, command, environment: {"NEVERBLOCK_TEST_LIBRARY" => library})
      end
    end

    # Runs a Rake task in a process of its own.
    # @param tally [Boolean] whether it reports its own numbers; otherwise it counts as one test
    def run_task(part, task, engines: usable_engines(part), tally: true)
      engines.each { |engine| run(part, engine, [RbConfig.ruby, Gem.bin_path("rake", "rake"), task], tally:) }
    end

    # Prints the sum of all runs as the last line, and fails if any did.
    # @param interrupted [Boolean] whether some runs never came to be, which is a failure too
    def finish(interrupted: false)
      FileUtils.rm_rf(@folder) if @folder
      puts
      @runs.each { |run| puts format("%<name>-24s %<passed>6d passed %<failed>4d failed %<skipped>4d skipped", run) }
      sum = %i[passed failed skipped].to_h { |key| [key, @runs.sum { |run| run[key] }] }
      puts format("%<passed>d passed, %<failed>d failed, %<skipped>d skipped", sum)
      $stdout.flush
      exit!(1) if interrupted || sum[:failed] > 0 || sum[:passed].zero?
    end

    private

    def chosen_files
      @files.flat_map { |word|
        path = File.expand_path(word, ROOT)
        File.directory?(path) ? Dir[File.join(path, "**", "*_test.rb")] : [path]
      }.map { |path| path.delete_prefix(File.join(ROOT, "")) }
    end

    # The engines asked for that work on this machine. One that was built in but
    # cannot run here (io_uring is often forbidden in containers) is a skip that
    # says why; epoll and poll have no excuse.
    def usable_engines(part)
      asked = ENV["NEVERBLOCK_ENGINE"].to_s.split(",")
      (asked.any? ? asked : ENGINES).select do |engine|
        reason = refusal(engine)
        next true unless reason
        puts "\n== #{part} #{engine}: not available on this machine: #{reason}"
        optional = engine == "uring" || (engine == "epoll" && !RUBY_PLATFORM.include?("linux"))
        @runs << {name: "#{part} #{engine}", passed: 0, failed: optional ? 0 : 1, skipped: optional ? 1 : 0}
        false
      end
    end

    # Why an engine cannot be used, nil if it can.
    def refusal(engine)
      @refusals ||= {}
      @refusals.fetch(engine) do
        program = 'require "neverblock"; NeverBlock.run { sleep 0 }'
        output = IO.popen({"NEVERBLOCK_ENGINE" => engine}, [RbConfig.ruby, "-Ilib", "-e", program], chdir: ROOT, err: %i[child out], &:read)
        @refusals[engine] = $?.success? ? nil : output.lines.first.to_s.strip
      end
    end

    def run(part, engine, command, tally: true, environment: {})
      name = [part, engine].compact.join(" ")
      @folder ||= Dir.mktmpdir("neverblock-test") # not before: every rake task loads this
      file = File.join(@folder, "#{@runs.size}.json")
      environment = environment.merge("NEVERBLOCK_TALLY" => file, "NEVERBLOCK_TALLY_NAME" => name)
      environment["NEVERBLOCK_ENGINE"] = engine if engine
      puts "\n== #{name}, Ruby #{RUBY_VERSION}"
      $stdout.flush
      status = wait(Process.spawn(environment, *command, chdir: ROOT, in: File::NULL, pgroup: true), name, file)
      @runs << (tally ? outcome(name, status, read(file)) : check(name, status))
    end

    # Adds up what a run reported. One that reported nothing, or ended badly without
    # a failure to show for it, is a failure itself.
    def outcome(name, status, lines)
      sum = %w[passed failed skipped].to_h { |key| [key.to_sym, lines.sum { |line| line.fetch(key) }] }
      sum[:failed] += 1 if sum[:failed].zero? && (lines.empty? || !status&.success?)
      {name:, **sum}
    end

    # A run without numbers of its own counts as one test.
    def check(name, status)
      passed = status&.success? ? 1 : 0
      {name:, passed:, failed: 1 - passed, skipped: 0}
    end

    def read(file)
      File.exist?(file) ? File.readlines(file).map { |line| JSON.parse(line) } : []
    end

    # Waits for a run. A hanging one is aborted, which makes Ruby print its C and
    # Ruby backtraces, after saying which test was on.
    def wait(pid, name, file)
      deadline = now + LIMIT
      until (status = Process.wait2(pid, Process::WNOHANG))
        if now > deadline
          puts "#{name} did not end within #{LIMIT} s (NEVERBLOCK_TEST_LIMIT) and is killed. The test that was on:"
          puts File.exist?("#{file}.current") ? File.read("#{file}.current") : "(none)"
          return abort_run(pid)
        end
        sleep 0.05
      end
      status.last
    rescue Interrupt
      Process.kill(:TERM, -pid)
      raise
    end

    # The whole process group, since a hanging test may have left children.
    def abort_run(pid)
      Process.kill(:ABRT, pid)
      deadline = now + 10
      sleep 0.05 until (gone = Process.wait2(pid, Process::WNOHANG)) || now > deadline
      Process.kill(:KILL, -pid)
      Process.wait(pid) unless gone
      nil
    rescue Errno::ESRCH
      nil # none of the group is left
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
