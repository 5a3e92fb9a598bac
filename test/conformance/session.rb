# frozen_string_literal: true

module Conformance
  # One run of Ruby's own tests under one engine, several files at a time.
  #
  #   session = Conformance::Session.new(engine: "epoll", ci: true)
  #   session.call.summary
  #   session.failed  # => 0
  class Session
    JOBS = Integer(ENV.fetch("CONFORMANCE_JOBS", "2"))
    # Replaces the sample scheduler of test/fiber.
    OURS = File.join(__dir__, "child", "scheduler.rb")

    # @return [Hash{Suite=>Array<FileRun>}]
    attr_reader :runs
    # @return [String]
    attr_reader :engine

    # @param engine [String] its name
    # @param ci [Boolean] only the part for every test run, without proofs
    # @param only [Array<String>] suites, or parts of file names
    # @param engines [String, nil] "one", "every": only suites with that declaration
    def initialize(engine:, ci: false, only: [], engines: nil, output: $stdout)
      @tree = SourceTree.find
      @suites = Suite.all(@tree, ci:, only:, engines:)
      @engine = engine
      @ci = ci
      @output = output
      @runs = @suites.to_h { |suite| [suite, []] }
      @lock = Mutex.new
    end

    # @return [self]
    def call
      started = now
      @exclusions = Exclusion.all(engine).group_by(&:file)
      @extensions = @tree.extensions(@suites.flat_map(&:files))
      @output.puts "Ruby's own tests from #{@tree.path}", "#{RUBY_DESCRIPTION}, engine #{engine}, #{JOBS} processes", ""
      @tree.with_scheduler(OURS) { |folder| run_files(folder) }
      @time = now - started
      self
    end

    # @return [Float] seconds
    attr_reader :time

    # @return [Integer] number of verdicts of these kinds in all files
    def count(*kinds) = runs.values.flatten.sum { |run| run.count(*kinds) }

    def passed = count("passed", "unsteady")

    def failed = count("failed")

    # Excluded tests, tests that skip themselves, and tests that fail without NeverBlock as well.
    def skipped = count("skipped", "excluded", "stock")

    # Prints every verdict but "passed", and the time.
    # @return [self]
    def summary
      %w[unsteady stock failed].each { |kind| list(kind) }
      @output.puts "", format("%<engine>s: %<time>.0f s; %<excluded>d of the skipped are excluded, %<stock>d fail without NeverBlock too, the others do not apply here",
        engine:, time:, excluded: count("excluded"), stock: count("stock"))
      self
    end

    private

    # The largest files first, so that none of them runs alone at the end.
    def run_files(folder)
      jobs = @suites.flat_map { |suite| suite.files.map { |file| [suite, file] } }
      queue = jobs.sort_by { |_, file| -File.size(@tree.join(file)) }
      workers = Array.new(JOBS) do
        Thread.new do
          while (suite, file = @lock.synchronize { queue.shift })
            run = file_run(suite, file, folder).call
            @lock.synchronize { add(suite, run) }
          end
        end
      end
      workers.each(&:join)
    ensure
      workers&.each(&:kill)
    end

    def file_run(suite, file, folder)
      options = {extensions: @extensions}
      options[:folder] = folder if suite.way == "scheduler"
      FileRun.new(@tree, suite, file, exclusions: @exclusions.fetch(file, []), proofs: (@ci ? nil : Proofs.new), **options)
    end

    def add(suite, run)
      runs[suite] << run
      @output.puts format("%<mark>-6s %<file>-40s %<passed>5d passed %<failed>3d failed %<excluded>3d excluded %<skipped>3d skipped %<time>6.1f s",
        mark: run.count("failed").zero? ? "ok" : "FAILED", file: run.file, passed: run.count("passed", "unsteady"),
        failed: run.count("failed"), excluded: run.count("excluded"), skipped: run.count("skipped", "stock"), time: run.time)
      run.verdicts.each { |verdict| @output.puts "       #{verdict.test}: #{verdict.message.to_s.lines.first}" if verdict.kind == "failed" }
      @output.flush
    end

    TITLES = {
      "unsteady" => "Passed only when run again by itself",
      "stock" => "Fails on this machine without NeverBlock too",
      "failed" => "FAILED"
    }.freeze
    private_constant :TITLES

    def list(kind)
      found = runs.flat_map { |_, files| files.flat_map { |run| run.verdicts.select { |verdict| verdict.kind == kind }.map { |verdict| [run.file, verdict] } } }
      return if found.empty?
      @output.puts "", "== #{TITLES.fetch(kind)} (#{found.size})"
      found.each do |file, verdict|
        @output.puts "#{file} #{verdict.test}"
        @output.puts verdict.message.to_s.lines.first((kind == "failed") ? 60 : 3).map { |line| "    #{line}" }
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
