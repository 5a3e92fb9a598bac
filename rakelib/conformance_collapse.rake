# frozen_string_literal: true

# What becomes of requests that wait for one response, through the proxy, nginx and Varnish:
#
#   rake conformance:collapse                   # all; its result goes to docs/conformance.md
#   rake conformance:collapse CACHES=nginx      # some; it is printed, and the page stays as it is
#
# The cases of NeverBlock::Cache by itself are in test/unit/cache/collapse_matrix_test.rb.
namespace :conformance do
  desc "Count an origin server's requests behind the proxy, nginx and Varnish while clients wait, and write docs/conformance.md"
  task collapse: :compile do
    %w[run report].each { |name| require_relative "../test/conformance/collapse/#{name}" }
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    some = ENV["CACHES"].to_s.split(",")
    contestants = (some.empty? ? %w[neverblock nginx varnish] : some).map { |name| Conformance::HttpCache::Contestant.named(name, collapse: true) }
    contestants, others = contestants.partition { |contestant| contestant.missing.nil? }
    others.each { |contestant| puts "left out: #{contestant.title}: #{contestant.missing}" }
    runs = contestants.map { |contestant| Conformance::Collapse::Run.new(contestant).call }
    report = Conformance::Collapse::Report.new(runs, time: Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
    puts report.section
    puts "written: #{report.write}" if some.empty?
  rescue ArgumentError => error
    abort error.message
  end
end
