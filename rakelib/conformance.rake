# frozen_string_literal: true

# Ruby's own tests, with NeverBlock beneath them; docs/conformance.md says how:
#
#   rake conformance:ruby                          # all; its result goes to docs/conformance.md
#   rake conformance:ruby SUITES=IO,test_socket    # suites, or parts of file names
#   rake conformance:ci                            # the part for every test run
#   rake conformance:proof                         # records how the excluded tests fare under async
#   RAILS_SOURCE=/path rake conformance:active_record    # Active Record's own tests, with our adapter for PostgreSQL
#   RAILS_SOURCE=/path DATABASE=trilogy rake conformance:active_record    # for MySQL; or mysql2
#
# NEVERBLOCK_ENGINE=epoll,poll chooses engines; unset, the one that is the default here.
require "json"

# Loaded only by the tasks.
module ConformanceTask
  module_function

  def sessions(ci: false)
    load
    only = ENV["SUITES"].to_s.split(",")
    needs = ENV["CONFORMANCE_ENGINES"] # for test:conformance, once for one engine and once for each
    engines.map do |engine|
      ENV["NEVERBLOCK_ENGINE"] = engine # the tests' processes inherit it
      Conformance::Session.new(engine:, ci:, only:, engines: needs).call.summary
    end
  rescue Conformance::SourceTree::Missing, ArgumentError => error
    warn error.message
    conclude(0, 1, 0)
  end

  # Of Active Record's tests, with the engine that is the default here.
  def rails_session
    load
    %w[tree postgres mysql run_process exclusion part session report].each { |name| require_relative "../test/conformance/rails/#{name}" }
    database = ["", "postgresql"].include?(ENV["DATABASE"].to_s) ? Conformance::Rails::Postgres.new : Conformance::Rails::Mysql.new(ENV["DATABASE"])
    Conformance::Rails::Session.new(engine: engines.first, database:, only: ENV["FILES"].to_s.empty? ? Conformance::Rails::Tree::FILES : ENV["FILES"].delete_prefix("all").split(",")).call.summary
  rescue Conformance::SourceTree::Missing, ArgumentError => error
    warn error.message
    conclude(0, 1, 0)
  end

  def load
    %w[source_tree suite exclusion test_process proofs proof_run file_run session report].each do |name|
      require_relative "../test/conformance/#{name}"
    end
  end

  def engines
    asked = ENV["NEVERBLOCK_ENGINE"].to_s.split(",")
    return asked if asked.any?
    name = IO.popen([RbConfig.ruby, "-Ilib", "-rneverblock", "-e", "print NeverBlock.engine.name"], &:read)
    $?.success? ? [name] : abort("NeverBlock cannot be loaded: rake compile")
  end

  def finish(sessions)
    verdicts = sessions.flat_map { |session| session.runs.values.flatten }.flat_map(&:verdicts)
    failures = verdicts.filter_map { |verdict| "#{verdict.test}: #{verdict.message}" if verdict.kind == "failed" }
    conclude(*%i[passed failed skipped].map { |sum| sessions.sum(&sum) }, failures)
  end

  # Prints the sums as the last line, and tells them to the task that started this one (see test/support/tally.rb).
  def conclude(passed, failed, skipped, failures = [])
    puts "#{passed} passed, #{failed} failed, #{skipped} skipped"
    if (path = ENV["NEVERBLOCK_TALLY"])
      line = {name: ENV.fetch("NEVERBLOCK_TALLY_NAME", "conformance"), passed:, failed:, skipped:, failures: failures.map { |message| {message:} }}
      File.write(path, "#{JSON.generate(line)}\n", mode: "a")
    end
    exit(failed.zero? && passed > 0)
  end
end

namespace :conformance do
  desc "Run all of Ruby's own tests that are listed, and write docs/conformance.md"
  task ruby: :compile do
    sessions = ConformanceTask.sessions
    sessions.each { |session| puts "written: #{Conformance::Report.new(session).write}" } if ENV["SUITES"].to_s.empty?
    ConformanceTask.finish(sessions)
  end

  desc "Run the part of Ruby's own tests that belongs to every test run"
  task ci: :compile do
    ConformanceTask.finish(ConformanceTask.sessions(ci: true))
  end

  desc "Run Active Record's own PostgreSQL tests with our adapter (RAILS_SOURCE=a checkout of Rails), and write docs/conformance.md"
  task active_record: :compile do
    session = ConformanceTask.rails_session
    puts "written: #{Conformance::Rails::Report.new(session).write}" if ["", "all"].include?(ENV["FILES"].to_s)
    ConformanceTask.finish([session])
  end

  desc "Record how the excluded tests fare under async (ASYNC=a folder made by gem install --install-dir)"
  task :proof do
    ConformanceTask.load
    puts "written: #{Conformance::ProofRun.new(ENV.fetch("ASYNC", "tmp/async")).call}"
  end
end
