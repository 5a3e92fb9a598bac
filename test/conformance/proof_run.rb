# frozen_string_literal: true

module Conformance
  # Runs every excluded test under the scheduler of the gem async and records its result for Proofs.
  #
  #   Conformance::ProofRun.new("/path/to/a/gem/home").call
  class ProofRun
    # @param home [String] a folder made by `gem install --install-dir HOME async`
    def initialize(home)
      @home = File.expand_path(home)
      @async = Dir[File.join(@home, "gems", "async-[0-9]*")].map { |path| path[/async-([\d.]+)\z/, 1] }.first
      return if @async
      raise ArgumentError, "#{@home} has no gem async. Make it with: gem install --install-dir #{@home} async"
    end

    # Replaces the sample scheduler of test/fiber.
    ASYNC = File.join(__dir__, "child", "async_scheduler.rb")

    # @return [String] the path of the record
    def call
      ENV["CONFORMANCE_ASYNC"] = @home # inherited by the tests' processes
      tree = SourceTree.find
      exclusions = Exclusion.all(nil).select { |exclusion| exclusion.proof.include?("async") }
      extensions = tree.extensions(exclusions.map(&:file).uniq)
      results = tree.with_scheduler(ASYNC) do |folder|
        exclusions.to_h { |exclusion| [exclusion, run(tree, exclusion, folder, extensions)] }
      end
      Proofs.new.write(results, async: @async)
    end

    private

    # The tests of test/fiber make a scheduler themselves; the others are run inside one.
    def run(tree, exclusion, folder, extensions)
      around = exclusion.file.start_with?("test/fiber/") ? {surroundings: "stock", folder:} : {surroundings: "async"}
      process = TestProcess.new(tree, exclusion.file, only: [exclusion.test], limit: exclusion.limit, extensions:, **around).call
      result = process.results.first or raise ArgumentError, "#{exclusion.key}: no such test\n#{process.output}"
      puts format("%-8s %s", result.status, exclusion.key)
      result
    end
  end
end
