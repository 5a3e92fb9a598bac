# frozen_string_literal: true

# Sequel's own specs in a loop, with the plain adapter for PostgreSQL and with ours:
#
#   rake conformance:sequel SEQUEL_SOURCE=/path/to/sequel                                    # all; its result goes to docs/conformance.md
#   rake conformance:sequel SEQUEL_SOURCE=/path/to/sequel SUITES=postgres_spec,transaction
namespace :conformance do
  desc "Run Sequel's specs (SEQUEL_SOURCE=its checkout) with neverblock-postgres, beside the plain adapter, and write docs/conformance.md"
  task sequel: :compile do
    %w[sequel_run sequel_report].each { |name| require_relative "../test/conformance/#{name}" }
    source = ENV["SEQUEL_SOURCE"].to_s
    abort "SEQUEL_SOURCE= a checkout of Sequel, which its gem is not: it has no specs" if source.empty?
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    run = Bundler.with_unbundled_env { Conformance::SequelRun.new(source, only: ENV["SUITES"].to_s.split(",")).call { |result| puts result } }
    time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    puts "written: #{Conformance::SequelReport.new(run, version: run.version, time:).write}" if ENV["SUITES"].to_s.empty?
    puts "#{run.results.size} files, #{run.failures.size} failures that the plain adapter does not have"
    exit(run.failures.empty?)
  end
end
