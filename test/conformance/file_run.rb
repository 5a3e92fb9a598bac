# frozen_string_literal: true

module Conformance
  # Runs one file of Ruby's tests and judges each test:
  #
  #   passed     it passed
  #   unsteady   it passed only when run again by itself: counts as passed, and is listed
  #   skipped    it skips itself
  #   excluded   exclusions.yml names it, and it failed as required
  #   stock      it fails in the same way on this machine without NeverBlock: listed
  #   failed     anything else: a failure, a crash, a test that hangs, an excluded test
  #              that passes, an exclusion whose proof does not hold
  class FileRun
    # A test with its judgement; the message explains any kind but "passed".
    Verdict = Struct.new(:test, :kind, :assertions, :message)

    # Processes for one file before the run gives up.
    RESTARTS = 12

    # Runs of an excluded test that all have to pass before its exclusion counts as unneeded: some pass if a child
    # happens to end early.
    PASSES = 3

    # @return [Array<Verdict>]
    attr_reader :verdicts
    # @return [String] the file, relative to the source tree
    attr_reader :file

    # @param tree [SourceTree]
    # @param suite [Suite]
    # @param exclusions [Array<Exclusion>] those of this file
    # @param proofs [Proofs, nil] to check each exclusion against; nil: no check
    # @param options [Hash] for every TestProcess: extensions, folder
    def initialize(tree, suite, file, exclusions:, proofs: nil, **options)
      @tree = tree
      @file = file
      @way = (suite.way == "scheduler") ? "stock" : "neverblock"
      @left_out = suite.left_out
      @exclusions = exclusions
      @proofs = proofs
      @options = options
      @verdicts = []
    end

    # @return [self]
    def call
      started = now
      results = run_all
      results.select(&:good?).each { |result| add(result, result.passed? ? "passed" : "skipped") }
      results.reject(&:good?).each { |result| judge_failure(result) }
      @exclusions.each { |exclusion| judge_exclusion(exclusion) }
      @time = now - started
      self
    end

    # @return [Float] seconds
    attr_reader :time

    # @return [Integer] number of verdicts of these kinds
    def count(*kinds) = verdicts.count { |verdict| kinds.include?(verdict.kind) }

    def assertions = verdicts.sum(&:assertions)

    private

    # Continues with the remaining tests in a new process after a test has ended the process.
    def run_all
      results = []
      except = @left_out + @exclusions.map(&:test)
      RESTARTS.times do
        process = start(except:)
        results.concat(process.results)
        if process.problem
          @verdicts << Verdict.new(file, "failed", 0, "#{process.problem}\n#{process.output}")
          return results
        end
        return results if process.complete?
        except += process.results.map(&:test)
      end
      @verdicts << Verdict.new(file, "failed", 0, "given up after #{RESTARTS} processes that a test ended")
      results
    end

    def judge_failure(result)
      if !result.fatal? && (again = start(only: [result.test]).results.first)&.good?
        add(again, "unsteady", "failed at first:\n#{result.report}")
      elsif (stock = start(only: [result.test], surroundings: "stock", scheduler: false).results.first) && !stock.good?
        add(result, "stock", "without NeverBlock: #{stock.report}")
      else
        add(result, "failed", result.report)
      end
    end

    def judge_exclusion(exclusion)
      result = nil
      PASSES.times { break unless (result = start(only: [exclusion.test], limit: exclusion.limit).results.first)&.passed? }
      if result.nil?
        verdict(exclusion, "failed", "is excluded, but there is no such test")
      elsif result.passed?
        verdict(exclusion, "failed", "is excluded, but passes: take it out of exclusions.yml")
      elsif (gap = @proofs&.gap(exclusion) { |way| start(only: [exclusion.test], limit: exclusion.limit, surroundings: way, scheduler: false).results.first })
        verdict(exclusion, "failed", "is excluded, but #{gap}")
      else
        verdict(exclusion, "excluded", exclusion.reason)
      end
    end

    # @param scheduler [Boolean] whether a test that makes a scheduler itself gets ours
    def start(surroundings: @way, scheduler: true, **)
      options = scheduler ? @options : @options.except(:folder)
      TestProcess.new(@tree, file, surroundings:, **options, **).call
    end

    def add(result, kind, message = nil)
      @verdicts << Verdict.new(result.test, kind, result.assertions, message)
    end

    def verdict(exclusion, kind, message)
      @verdicts << Verdict.new(exclusion.test, kind, 0, message)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
