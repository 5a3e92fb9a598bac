# frozen_string_literal: true

module Conformance
  module Rails
    # Some files of Active Record's tests, run with the stock adapter and with ours, with each test's verdict:
    #
    #   passed     it passed with both
    #   unsteady   with ours it passed only when run again by itself: counts as passed, and is listed
    #   skipped    it skips itself, with both adapters; or its file needs gems that are missing here
    #   excluded   exclusions.yml names it, and it did not pass with ours
    #   stock      it does not pass with the stock adapter on this machine either
    #   failed     anything else
    class Part
      Verdict = FileRun::Verdict

      # @return [Array<Verdict>]
      attr_reader :verdicts
      # @return [String]
      attr_reader :name
      # @return [Float] seconds
      attr_reader :time

      # @param exclusions [Array<Exclusion>]
      def initialize(tree, name, files, database:, exclusions:)
        @tree = tree
        @name = name
        @files = files
        @database = database
        @exclusions = exclusions
        @verdicts = []
      end

      # For {Report}.
      alias_method :file, :name

      # @return [self]
      def call
        started = now
        stock = run("stock")
        ours = run("neverblock", except: @exclusions)
        stock.each_value { |expected| judge(expected, ours[expected.test]) }
        (ours.keys - stock.keys).each { |test| add(test, "failed", "is only there with our adapter") }
        @time = now - started
        self
      end

      # @return [Integer] number of verdicts of these kinds
      def count(*kinds) = verdicts.count { |verdict| kinds.include?(verdict.kind) }

      private

      # @return [Hash{String=>Result}] by test
      def run(surroundings, except: [])
        results = []
        FileRun::RESTARTS.times do
          left_out = results.map(&:test) + except.flat_map { |exclusion| exclusion.tests(@names || []) }
          process = RunProcess.new(@tree, @files, database: @database, surroundings:, except: left_out).call
          @names ||= process.tests
          results.concat(process.results)
          process.unloadable.each { |file, why| add(@tree.path && File.basename(file), "skipped", why) } if surroundings == "stock" && results.size == process.results.size
          add(@name, "failed", "with #{surroundings}: #{process.problem}\n#{process.output}") if process.problem
          break if process.problem || process.complete?
        end
        results.to_h { |result| [result.test, result] }
      end

      def judge(expected, result)
        exclusion = @exclusions.find { |entry| entry.matches?(expected.test) }
        return judge_excluded(expected, exclusion) if exclusion
        if result&.status == expected.status then add(expected.test, expected.good? ? expected.status : "stock", expected.report, result.assertions)
        elsif result && !expected.good? then add(expected.test, result.good? ? result.status : "stock", expected.report, result.assertions)
        else
          judge_different(expected, result)
        end
      end

      def judge_different(expected, result)
        again = alone(expected.test)
        if again&.status == expected.status
          add(expected.test, "unsteady", "at first: #{result&.report || "it was not run"}", again.assertions)
        else
          worse = again || result
          add(expected.test, "failed", "#{worse&.status || "not there"}, with the stock adapter #{expected.status}: #{worse&.report}")
        end
      end

      def judge_excluded(expected, exclusion)
        if !expected.good? then add(expected.test, "stock", expected.report)
        elsif exclusion.may_pass? || !alone(expected.test)&.passed? then add(expected.test, "excluded", exclusion.reason)
        else
          add(expected.test, "failed", "is excluded, but passes: take it out of exclusions.yml")
        end
      end

      def alone(test) = RunProcess.new(@tree, @files, database: @database, surroundings: "neverblock", only: [test]).call.results.first

      def add(test, kind, message = nil, assertions = 0)
        @verdicts << Verdict.new(test, kind, assertions, message)
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
