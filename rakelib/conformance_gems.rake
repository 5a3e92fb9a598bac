# frozen_string_literal: true

# The suites of gems that use Active Record, with the stock adapter and with ours in a loop:
#
#   NEVERBLOCK_GEMS=/folder/with/checkouts rake conformance:gems              # all; its result goes to docs/conformance.md
#   NEVERBLOCK_GEMS=/folder/with/checkouts rake conformance:gems GEM=scenic   # some; the page stays as it is
namespace :conformance do
  desc "Run the suites of gems (NEVERBLOCK_GEMS=a folder with their checkouts) with neverblock_postgresql, beside the stock adapter, and write docs/conformance.md"
  task gems: :compile do
    %w[gem_run report].each { |name| require_relative "../test/conformance/gems/#{name}" }
    folder = ENV["NEVERBLOCK_GEMS"].to_s
    abort "NEVERBLOCK_GEMS= a folder with checkouts of #{Conformance::Gems::GemRun::DESCRIPTIONS.keys.join(", ")}: their gems have no specs" if folder.empty?
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    some = ENV["GEM"].to_s.split(",")
    runs = (some.empty? ? Conformance::Gems::GemRun::DESCRIPTIONS.keys : some).map { |name| Conformance::Gems::GemRun.new(name, folder) }
    Bundler.with_unbundled_env do
      runs.each do |run|
        run.call
        puts "#{run.name}: #{run.stock.size} tests, with ours #{run.ours.size}, #{run.failures.size} differ", run.failures.map { |test, message| "  #{test}: #{run.reasons[test] || message}" }
      end
    end
    time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    puts "written: #{Conformance::Gems::Report.new(runs, time:).write}" if some.empty?
    exit(runs.all? { |run| run.unexplained.empty? })
  rescue Conformance::Gems::GemRun::Missing => error
    abort error.message
  end
end
