# frozen_string_literal: true

# Runs groups of tests as child processes, one per engine and as many at a time as there are
# processors, and adds up what they report. Used by the Rake tasks; it loads neither Minitest
# nor NeverBlock.
require "etc"
require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "suite/child"
require_relative "suite/second_look"

module NeverBlockTest
  # The runs of one `rake test`.
  class Suite
    ROOT = File.expand_path("../..", __dir__)
    ENGINES = %w[epoll uring poll].freeze
    # How many runs at a time.
    LANES = Integer(ENV.fetch("NEVERBLOCK_TEST_LANES", Etc.nprocessors.clamp(1, 4).to_s))

    # @param selection [Array<String>] files, and parts of test names; empty runs all
    def initialize(selection: [])
      @files, @patterns = selection.partition { |word| word.end_with?(".rb") || File.exist?(File.join(ROOT, word)) }
      @runs = []
      @children = [] # those that have not ended, the oldest first; its output is shown as it comes
      @owner = Process.pid
    end

    def selective? = @files.any? || @patterns.any?

    def any? = (@runs.any? || @children.any?) && Process.pid == @owner

    # Runs the test files that match, and that the selection asks for.
    # @param library [String, nil] a folder searched before lib/, with another build of the extension
    # @param environment [Hash{String=>String}] more of it
    def run_files(part, pattern, engines: usable_engines(part), library: nil, environment: {})
      files = Dir.glob(pattern, base: ROOT).sort
      files &= chosen_files if @files.any?
      return if files.empty?
      program = "ARGV.shift(#{files.size}).each { |file| require file }"
      options = @patterns.flat_map { |word| ["-n", "/#{word}/"] }
      paths = files.map { |file| File.join(ROOT, file) }
      engines.each do |engine|
        ruby = [RbConfig.ruby, "-w", *("-I#{library}" if library), "-Ilib", "-Itest", "-e"]
        repeat = ->(file, test) { [*ruby, "require ARGV.shift", file, "-n", "/\\A#{Regexp.escape(test)}\\z/"] }
        run(part, engine, [*ruby, program, *paths, *options], environment: {"NEVERBLOCK_TEST_LIBRARY" => library, **environment}, repeat:)
      end
    end

    # Runs a Rake task in a process of its own.
    # @param tally [Boolean] whether it reports its own numbers; otherwise it counts as one test
    def run_task(part, task, engines: usable_engines(part), tally: true)
      engines.each { |engine| run(part, engine, [RbConfig.ruby, Gem.bin_path("rake", "rake"), task], tally:) }
    end

    # Waits for all that has been begun.
    def wait = wait_until { @children.empty? }

    # Waits for all runs, takes a {SecondLook}, prints what has failed, their sum as the last line, and fails if any did.
    # @param interrupted [Boolean] whether some runs never came to be, which is a failure too
    def finish(interrupted: false)
      @children.each(&:kill) if interrupted
      wait
      @runs.map! { |run| SecondLook.new(run).call } unless interrupted
      FileUtils.rm_rf(@folder) if @folder
      puts
      @runs.each { |run| puts format("%<name>-24s %<passed>6d passed %<failed>4d failed %<skipped>4d skipped %<seconds>4d s", run) }
      show_slowest if ENV["NEVERBLOCK_TEST_SLOWEST"]
      @runs.each { |run| run[:failures].each { |failure| puts "failed: #{run[:name]}: #{brief(failure)}" } }
      sum = %i[passed failed skipped].to_h { |key| [key, @runs.sum { |run| run[key] }] }
      puts format("%<passed>d passed, %<failed>d failed, %<skipped>d skipped", sum)
      $stdout.flush
      exit!(1) if interrupted || sum[:failed] > 0 || sum[:passed].zero?
    end

    private

    # Its beginning, and what was found out about it.
    def brief(failure)
      text = failure.split.join(" ")
      (text.size > 400) ? "#{text[0, 340]} … #{text[-50..]}" : text
    end

    def show_slowest
      @runs.each { |run| run[:slowest].each { |seconds, name| puts format("slow: %-20s %6.1f s %s", run[:name], seconds, name) } }
    end

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
        @runs << {name: "#{part} #{engine}", passed: 0, failed: optional ? 0 : 1, skipped: optional ? 1 : 0, seconds: 0, failures: optional ? [] : [reason], again: [], slowest: []}
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

    # Begins it as soon as there is a lane.
    # @param repeat [#call, nil] returns the command that runs one test of it
    def run(part, engine, command, tally: true, environment: {}, repeat: nil)
      wait_until { @children.count(&:runs?) < LANES }
      @folder ||= Dir.mktmpdir("neverblock-test") # not before: every rake task loads this
      @number = @number.to_i + 1
      environment = environment.merge("NEVERBLOCK_ENGINE" => engine) if engine
      name = [part, engine].compact.join(" ")
      file = File.join(@folder, @number.to_s)
      once_more = ->(path, test, number) { Child.new("#{name}, again", repeat.call(path, test), environment:, tally: true, file: "#{file}.#{test.hash}.#{number}") }
      @children << Child.new(name, command, environment:, tally:, file:, repeat: once_more)
    end

    def wait_until
      show_in_turn
      until yield
        sleep 0.05
        show_in_turn
      end
    end

    # The oldest is seen live, the others when it has ended: so their lines do not mix.
    def show_in_turn
      while (oldest = @children.first)
        running = oldest.runs?
        oldest.show
        break if running
        @runs << @children.shift.outcome
      end
    end
  end
end
