# frozen_string_literal: true

# Runs groups of tests as child processes, as many at a time as keep the processors busy, and sums up their reports. For
# the Rake tasks; it loads neither Minitest nor NeverBlock.
require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "suite/child"
require_relative "suite/declarations"
require_relative "suite/lanes"
require_relative "suite/plan"
require_relative "suite/second_look"
require_relative "suite/selection"
require_relative "suite/summary"

module NeverBlockTest
  # The runs of one `rake test`. They are planned first, and started by {#wait} or {#finish}, the longest first.
  class Suite
    ROOT = File.expand_path("../..", __dir__)
    ENGINES = %w[epoll uring poll].freeze
    # The part of the runs that have all processors for themselves.
    SERIAL = "serial"

    # A run that has not begun.
    Planned = Struct.new(:name, :title, :command, :environment, :tally, :repeat, :seconds)

    # @param selection [Array<String>] files, and parts of test names; empty: all
    def initialize(selection: [])
      @selection = Selection.new(selection)
      @plan = Plan.new
      @lanes = Lanes.new
      @fast = false
      @planned = []
      @children = [] # running children, oldest first; the oldest one's output is shown live
      @runs = []
      @owner = Process.pid
    end

    # Leaves out slow tests, and uses one engine only.
    # @return [void]
    def fast! = @fast = true

    def selective? = @selection.any?

    def any? = (@runs.any? || @children.any? || @planned.any?) && Process.pid == @owner

    # Plans the selected test files that match, each on the engines that it declares. Serial files become runs of the
    # part "serial".
    # @param engines [Array<String, nil>, nil] overrides the files' declarations
    # @param library [String, nil] a folder searched before lib/, with another build of the extension
    # @param environment [Hash{String=>String}] further variables
    def run_files(part, pattern, engines: nil, library: nil, environment: {})
      files = Dir.glob(pattern, base: ROOT).sort
      files &= @selection.files if @selection.files
      files = files.reject { |file| left_out?(file) }
      environment = {"NEVERBLOCK_TEST_LIBRARY" => library, "NEVERBLOCK_TEST_FAST" => ("1" if @fast), **environment}
      files.group_by { |file| [!Declarations.of(file).serial.nil?, engines || engines_of(file)] }.each do |(serial, group), members|
        usable_engines(part, group).each do |engine|
          run_chunks(serial ? SERIAL : part, engine, @plan.chunks(members, all: !@fast), library:, environment:)
        end
      end
    end

    # Plans a Rake task, in a process of its own.
    # @param tally [Boolean] whether it reports its own numbers; otherwise it counts as one test
    # @param seconds [Numeric] its estimated duration
    def run_task(part, task, engines: ENGINES, tally: true, seconds: 10, environment: {})
      engines = [nil] if one_engine?
      usable_engines(part, engines).each { |engine| plan(part, engine, [RbConfig.ruby, Gem.bin_path("rake", "rake"), task], tally:, seconds:, environment:) }
    end

    # Runs all planned runs: first several at a time, the longest first; then the serial ones.
    def wait
      serial, parallel = @planned.partition { |run| run.name.start_with?(SERIAL) }
      @planned.clear
      parallel.sort_by { |run| -run.seconds }.each { |run| start(run) }
      serial.each { |run| start(run, alone: true) }
      wait_until { @children.empty? }
    end

    # Runs all planned runs, takes a {SecondLook}, prints the failures and the sum as the last line, and exits with an
    # error if there were failures.
    # @param interrupted [Boolean] whether some runs were never planned, which is a failure too
    def finish(interrupted: false)
      interrupted ||= !completed?
      stop if interrupted
      @runs.map! { |run| SecondLook.new(run).call } unless interrupted || @runs.sum { |run| run[:failed] } > SecondLook::MOST
      FileUtils.rm_rf(@folder) if @folder
      summary = Summary.new(@runs)
      summary.print
      summary.write
      @plan.keep(summary.tests) unless interrupted || selective? || ENV["NEVERBLOCK_TEST_NAMES"]
      exit!(1) if interrupted || summary.sum[:failed] > 0 || summary.sum[:passed].zero?
    end

    private

    # @return [Boolean] whether the suite ran without an interrupt
    def completed?
      wait
      true
    rescue Interrupt
      false
    end

    def stop
      @planned.clear
      @children.each(&:kill)
      wait_until { @children.empty? }
    end

    def left_out?(file)
      declared = Declarations.of(file)
      (@fast && !declared.slow.nil?) || (ENV["NEVERBLOCK_TEST_CHAOS"] == "no" && !declared.chaos.nil?)
    end

    # Without a name, NeverBlock chooses the engine.
    def engines_of(file)
      return [nil] if @fast && asked_engines.empty?
      return asked_engines if @fast
      (Declarations.of(file).engines == "every" && !one_engine?) ? ENGINES : [nil]
    end

    def run_chunks(part, engine, chunks, library:, environment:)
      ruby = [RbConfig.ruby, "-w", *("-I#{library}" if library), "-Ilib", "-Itest", "-e"]
      repeat = ->(file, test) { [*ruby, "require ARGV.shift", File.join(ROOT, file), "-n", "/\\A#{Regexp.escape(test)}\\z/"] }
      chunks.each.with_index(1) do |files, number|
        program = "ARGV.shift(#{files.size}).each { |file| require file }"
        command = [*ruby, program, *files.map { |file| File.join(ROOT, file) }, *@selection.options]
        plan(part, engine, command, note: ("#{number} of #{chunks.size}" if chunks.size > 1), environment:, repeat:, seconds: @plan.seconds(files, all: !@fast))
      end
    end

    # For slow machines: .ci/run sets it.
    def one_engine? = ENV["NEVERBLOCK_TEST_ENGINES"] == "one"

    def asked_engines = ENV["NEVERBLOCK_ENGINE"].to_s.split(",")

    # The requested engines that work on this machine. An engine that was built but can't run here (containers often
    # forbid io_uring) is a skip with the reason; for epoll and poll it is a failure.
    def usable_engines(part, engines)
      return [asked_engines.first] if engines == [nil]
      engines = asked_engines if asked_engines.any?
      engines.select do |engine|
        reason = refusal(engine)
        next true unless reason
        refused(part, engine, reason)
        false
      end
    end

    def refused(part, engine, reason)
      name = "#{part} #{engine}"
      return if @runs.any? { |run| run[:name] == name }
      puts "\n== #{name}: not available on this machine: #{reason}"
      optional = engine == "uring" || (engine == "epoll" && !RUBY_PLATFORM.include?("linux"))
      @runs << {name:, passed: 0, failed: optional ? 0 : 1, skipped: optional ? 1 : 0, seconds: 0, processor: 0, failures: optional ? [] : [Failure.new(message: reason)], tests: [], left: []}
    end

    # The reason why an engine can't be used, nil if it can.
    def refusal(engine)
      @refusals ||= {}
      @refusals.fetch(engine) do
        program = 'require "neverblock"; NeverBlock.run { sleep 0 }'
        output = IO.popen({"NEVERBLOCK_ENGINE" => engine}, [RbConfig.ruby, "-Ilib", "-e", program], chdir: ROOT, err: %i[child out], &:read)
        @refusals[engine] = $?.success? ? nil : output.lines.first.to_s.strip
      end
    end

    # @param repeat [#call, nil] returns the command that reruns one test
    def plan(part, engine, command, seconds:, tally: true, environment: {}, repeat: nil, note: nil)
      environment = environment.merge("NEVERBLOCK_ENGINE" => engine) if engine
      name = [part, engine].compact.join(" ")
      @planned << Planned.new(name:, title: [name, *note].join(", "), command:, environment:, tally:, repeat:, seconds:)
    end

    # Starts it as soon as there is a free lane, or no other run.
    def start(run, alone: false)
      wait_until { @children.count(&:runs?).then { |running| alone ? running.zero? : @lanes.room?(running) } }
      @folder ||= Dir.mktmpdir("neverblock-test") # only now, since every rake task loads this file
      @number = @number.to_i + 1
      file = File.join(@folder, @number.to_s)
      again = lambda do |path, test, number|
        Child.new("#{run.name}, again", run.repeat.call(path, test), environment: run.environment, tally: true, file: "#{file}.#{test.hash}.#{number}")
      end
      @children << Child.new(run.name, run.command, title: run.title, environment: run.environment, tally: run.tally, file:, repeat: again)
    end

    def wait_until
      show_in_turn
      until yield
        sleep 0.05 # real: the test programs
        show_in_turn
      end
    end

    # Shows the oldest child's output live, and the others' once they have ended, so that lines don't mix.
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
