# frozen_string_literal: true

# Whole applications, with NeverBlock and with Puma:
#
#   NEVERBLOCK_CAMPFIRE=/path/to/once-campfire rake conformance:applications              # all; its result goes to docs/conformance.md
#   NEVERBLOCK_REDMINE=/path/to/redmine rake conformance:applications SUITE=no            # the load alone
#   ROUNDS=10 VISITS=10                                                                   # how often, and how much of it each of 20 visitors does
#   NEVERBLOCK_APPLICATION=my.yml MY_APP=/path rake conformance:applications              # described as those in test/conformance/applications
#
# A checkout's gems are installed for the Ruby that runs the task: choose one that it accepts (NEVERBLOCK_RUBY=…, CONTRIBUTING.md).
namespace :conformance do
  desc "Load whole applications (NEVERBLOCK_CAMPFIRE=, NEVERBLOCK_REDMINE= their checkouts) on NeverBlock and Puma, run their suites, and write docs/conformance.md"
  task applications: :compile do
    %w[application comparison suite_run report].each { |name| require_relative "../test/conformance/applications/#{name}" }
    $stdout.sync = true # it takes many minutes
    rounds = Integer(ENV.fetch("ROUNDS", "10"))
    abort "ROUNDS=#{rounds}: intervals need two rounds or more. ROUNDS=2 is the least" if rounds < 2
    size = {rounds:, visits: Integer(ENV.fetch("VISITS", "10"))}
    mistakes = Conformance::Applications::Application.given.flat_map do |application|
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      puts "#{application.name}: preparing"
      application.database.start
      Bundler.with_unbundled_env do
        application.prepare
        comparison = Conformance::Applications::Comparison.new(application, **size).call { |line| puts line }
        suite = Conformance::Applications::SuiteRun.new(application).call unless ENV["SUITE"] == "no"
        time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
        report = Conformance::Applications::Report.new(application, comparison, suite, time:)
        puts report.text
        puts "written: #{report.write}"
        comparison.mistakes + (suite ? suite.failures : [])
      end
    ensure
      application.database.stop
    end
    exit(mistakes.empty?)
  rescue Conformance::Applications::Application::Missing => error
    abort error.message
  end
end
