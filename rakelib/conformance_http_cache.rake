# frozen_string_literal: true

# The suite http-cache-tests (https://cache-tests.fyi) against `neverblock proxy` with a cache, nginx and Varnish:
#
#   rake conformance:http_cache                            # all; its result goes to docs/conformance.md
#   rake conformance:http_cache CACHES=neverblock          # some; the page stays as it is
#   NEVERBLOCK_HTTP_CACHE_TESTS=/path/to/cache-tests rake conformance:http_cache    # a checkout, after `npm install`
#
# It needs node, and npm for the package, which goes to tmp. test/conformance/http_cache/exclusions.yml has the tests of the
# package, and of a checkout, that do not pass, with the reasons. A checkout has a section of its own on the page.
namespace :conformance do
  desc "Run http-cache-tests against the proxy's cache, nginx and Varnish, and write docs/conformance.md"
  task http_cache: :compile do
    %w[run report].each { |name| require_relative "../test/conformance/http_cache/#{name}" }
    $stdout.sync = true
    package = Conformance::HttpCache::Package.find
    some = ENV["CACHES"].to_s.split(",")
    contestants = (some.empty? ? Conformance::HttpCache::Contestant::ALL.keys : some).map { |name| Conformance::HttpCache::Contestant.named(name) }
    contestants, others = contestants.partition { |contestant| contestant.missing.nil? }
    others.each { |contestant| puts "left out: #{contestant.title}: #{contestant.missing}" }
    runs = contestants.map do |contestant|
      run = Conformance::HttpCache::Run.new(package, contestant).call
      counts = %w[required optimal].map { |kind| "#{run.verdicts.passed(kind).size} of #{run.verdicts.of(kind).size} #{kind}" }
      puts "#{contestant.title} #{contestant.version}: #{counts.join(", ")}, #{run.time.round} s"
      run
    end
    puts "written: #{Conformance::HttpCache::Report.new(package, runs).write}" if some.empty?
    wrong = runs.select { |run| run.contestant.name == "neverblock" }.flat_map { |run| run.verdicts.unexpected + run.verdicts.needless + run.verdicts.unknown }
    puts wrong
    exit(wrong.empty?)
  rescue Conformance::HttpCache::Package::Missing, ArgumentError => error
    abort error.message
  end
end
