# frozen_string_literal: true

require "yaml"

module Conformance
  # The runs that prove the exclusions. Those under Ruby's own sample scheduler are repeated each time; those under
  # async, which need that gem, are recorded in proofs/, a file per Ruby series, by `rake conformance:proof`.
  class Proofs
    FOLDER = File.join(__dir__, "proofs")
    FAILURES = %w[failed hung crashed].freeze
    private_constant :FAILURES

    # @param series [String] the Ruby whose records take precedence; records of others fill the gaps
    def initialize(series = RUBY_VERSION[/\d+\.\d+/])
      @path = File.join(FOLDER, "async-ruby-#{series}.yml")
      @records = ([@path] | Dir[File.join(FOLDER, "async-*.yml")].sort.reverse).select { |path| File.exist?(path) }
        .map { |path| YAML.safe_load_file(path).fetch("tests") }
    end

    # @param exclusion [Exclusion]
    # @yield [way] runs the test in these surroundings
    # @yieldreturn [Result]
    # @return [String, nil] the flaw of the proof, nil if it holds
    def gap(exclusion)
      exclusion.proof.each do |way|
        if way == "async"
          recorded = @records.find { |tests| tests.key?(exclusion.key) }
          return "there is no record of it failing under async: rake conformance:proof" unless recorded
          return "it passes under async" unless FAILURES.include?(recorded[exclusion.key].fetch("status"))
        else
          result = yield(way)
          return "it passes in the surroundings \"#{way}\", which was its proof" if result.nil? || result.good?
        end
      end
      nil
    end

    # Replaces the record of this Ruby's series.
    # @param results [Hash{Exclusion=>Result}]
    # @param async [String] the version of the gem
    # @return [String] its path
    def write(results, async:)
      tests = results.sort_by { |exclusion, _| exclusion.key }.to_h { |exclusion, result|
        [exclusion.key, {"status" => result.status, "message" => brief(result.message)}]
      }
      File.write(@path, "# Made by `rake conformance:proof`: the excluded tests, run under another scheduler.\n" +
        YAML.dump({"ruby" => RUBY_DESCRIPTION, "async" => async, "date" => Time.now.strftime("%F"), "tests" => tests}).delete_prefix("---\n"))
      @path
    end

    private

    # The beginning of a message, without parts that differ from run to run.
    def brief(message)
      message.to_s.lines.first(2).map { |line| line.strip.gsub(/\bpid \d+ /, "")[0, 120] }.join("\n")
    end
  end
end
