# frozen_string_literal: true

# The test suite, in processes of its own, several at a time:
#
#   rake test                                  # what is fast, on one engine
#   rake test:all                              # everything, some files on every engine
#   rake test:unit                             # one part, all of it
#   NEVERBLOCK_ENGINE=poll rake test:unit      # one engine
#   TESTS="test/unit/task_test.rb" rake test:all   # files, or a part of test names
#
# Files declare which of them need every engine, and which tests are slow: test/support/suite/declarations.rb and
# test/support/marks.rb. One failing run does not stop the others; the end is one line that adds up all.
require "shellwords"
require_relative "../test/support/suite"

suite = begin
  NeverBlockTest::Suite.new(selection: Shellwords.split(ENV.fetch("TESTS", "")))
rescue ArgumentError => error
  abort "bin/test: #{error.message}"
end

namespace :test do
  task(:fast) { suite.fast! }

  desc "Test each class by itself"
  task(unit: :compile) { suite.run_files("unit", "test/unit/**/*_test.rb") }

  desc "Test programs that use real servers, processes and files"
  task(integration: :compile) { suite.run_files("integration", "test/integration/**/*_test.rb") }

  desc "Test whole programs: the demo, the docs, frameworks, clusters"
  task(programs: :compile) { suite.run_files("programs", "test/programs/**/*_test.rb") }

  # What the missing headers change: readiness, transfers, processes, wake-ups, and all that rests on them.
  portable = "test/unit/{scope,task,api/{offload,run,select,timeout},engine/{descriptors,fairness,io},runtime/{connector,process}," \
    "scheduler/{block,cancel,condition,interrupts,io,process,sleep,standalone,threads,timeout,transfer}}*_test.rb"

  desc "Test what rests on the engine with the portable one, compiled as if there were no Linux headers"
  task portable: :compile do
    next if suite.selective? && ENV["NEVERBLOCK_ENGINE"].to_s != "poll"
    build = ExtensionBuild.new(variant: "portable", arguments: ["--disable-linux"])
    build.call
    suite.run_files("portable", portable, engines: ["poll"], library: build.library)
  end

  desc "Test the project itself: set-up, packaging"
  task(setup: :compile) { suite.run_files("setup", "test/setup/**/*_test.rb") }

  desc "Run the part of Ruby's own tests that belongs to every test run, on every engine where that matters"
  task conformance: :compile do
    if suite.selective?
      puts "Ruby's own tests are left out of a selection: rake conformance:ci runs them"
    elsif Rake::Task.task_defined?("conformance:ci")
      {"one" => [nil], "every" => NeverBlockTest::Suite::ENGINES}.each do |needs, engines|
        suite.run_task("conformance", "conformance:ci", engines:, seconds: 60, environment: {"CONFORMANCE_JOBS" => "1", "CONFORMANCE_ENGINES" => needs})
      end
    end
  end

  desc "Measure what blocks on this Ruby, on every engine, and compare with docs/what-blocks.md"
  task what_blocks: :compile do
    next if suite.selective?
    next puts("What blocks is documented for no Ruby #{RUBY_VERSION}: rake what_blocks") unless Dir["script/what_blocks/measured/#{RUBY_VERSION[/\d+\.\d+/]}.json"].any?
    suite.run_task("what blocks", "what_blocks:check", tally: false, seconds: 30)
  end

  rails = %w[7.2 8.0 8.1]

  bundle = lambda do |version|
    {"BUNDLE_GEMFILE" => File.expand_path("test/apps/rails/#{version}.gemfile"), "BUNDLE_PATH" => File.expand_path("vendor/bundle"), "BUNDLE_VERSION" => "system"}
  end

  # bin/setup has those of the newest.
  task :rails_gems do
    rails.each do |version|
      Bundler.with_unbundled_env { sh(bundle.call(version), "bundle check >/dev/null 2>&1 || bundle install --jobs 4 --retry 3") }
    end
  end

  mysql_records = lambda do |version|
    suite.run_files("Active Record #{version}, MySQL", "test/{integration/mysql/active_record*,programs/mysql_differential}_test.rb",
      engines: [nil], environment: bundle.call(version))
  end

  # The records become docs/server-tests.md, if all tests passed; NEVERBLOCK_LONG_SECONDS, _DATABASE, _FUZZ, _DEPLOYS,
  # _KILLS and _REQUESTS shorten the run.
  desc "Watch the server for minutes: mixed traffic, a database with faults, 10,000 idle connections, deploys, killed workers, the fuzzer"
  task long: %i[compile rails_gems] do
    record = File.join(NeverBlockTest::Suite::ROOT, "tmp", "long.jsonl")
    FileUtils.mkdir_p(File.dirname(record))
    File.write(record, "")
    ENV["NEVERBLOCK_LONG_RECORD"] = record
    suite.run_files("long", "test/long/{database,idle,operations,soak}_test.rb", engines: NeverBlockTest::Suite::ENGINES)
    rails.each do |version|
      environment = {"NEVERBLOCK_RAILS" => version, "NEVERBLOCK_LONG_DEPLOYS" => ENV.fetch("NEVERBLOCK_LONG_DEPLOYS", "20")}
      suite.run_files("Rails #{version}", "test/programs/rails_*test.rb", engines: [nil], environment:)
      mysql_records.call(version)
      suite.run_files("Rails #{version} growth", "test/long/rails_test.rb", engines: [nil], environment:)
    end
    suite.run_files("long fuzz", "test/long/fuzz_test.rb", engines: [nil])
    suite.wait # the page is about all of them
    suite.run_task("page", "test:long_page", engines: [nil], tally: false)
  end

  # They need no Rails, but its gems, as they run in the process of the test.
  desc "Test the adapters for MySQL with each release of Active Record"
  task(mysql_records: %i[compile rails_gems]) { rails.each(&mysql_records) }

  task(:long_page) { ruby "script/server_tests_page.rb", ENV.fetch("NEVERBLOCK_LONG_RECORD") }

  task :lint do
    next if suite.selective?
    checks = {"layers" => "lint:layers", "duplicates" => "lint:duplicates", "columns" => "lint:columns", "sleeps" => "lint:sleeps"}
    checks.each { |name, task| suite.run_task(name, task, engines: [nil], tally: false) } if ENV["NEVERBLOCK_TEST_STYLE"] != "no"
    # bin/setup leaves the style tools out on preview Rubies that can't compile them. They say the same on each Ruby.
    if Gem.loaded_specs.key?("standard") && ENV["NEVERBLOCK_TEST_STYLE"] != "no"
      all = ENV["NEVERBLOCK_CI"] || ENV["CI"]
      suite.run_task("Ruby style", all ? "lint:ruby" : "lint:changed", engines: [nil], tally: false, seconds: all ? 60 : 5)
      suite.run_task("signatures", "lint:sig", engines: [nil], tally: false) if Dir.exist?("sig")
    end
    suite.run_task("C warnings", "lint:c", engines: [nil], tally: false)
  end
end

no_match = proc { abort "bin/test: no test file or name matches #{ENV["TESTS"].to_s.strip}; see bin/test --help" unless suite.any? }

desc "Run the tests that are fast, on one engine, and the style checks"
task(test: %w[test:fast test:unit test:programs test:integration test:setup test:lint], &no_match)

task(:names_only) { ENV.update("NEVERBLOCK_TEST_NAMES" => "1", "NEVERBLOCK_TEST_LIST" => ENV.fetch("NEVERBLOCK_TEST_LIST", "tmp/test_names")) }

desc "Write the names of all tests, with the run of each, into tmp/test_names, and run none"
task("test:names" => %w[names_only test:unit test:portable test:programs test:integration test:setup], &no_match)

desc "Run all tests and checks"
task("test:all" => %w[test:unit test:portable test:programs test:integration test:setup test:conformance test:what_blocks test:lint], &no_match)

# Its files are in tmp/coverage: coverage/run.rb.
desc "Count the lines and branches that the fast unit and integration tests run on one engine (ALL=1: slow ones too)"
task coverage: :compile do
  require_relative "coverage/run"
  coverage = CoverageRun.new
  coverage.prepare
  suite.fast! unless ENV["ALL"]
  %w[unit integration].each do |part|
    suite.run_files(part, "test/#{part}/**/*_test.rb", engines: [nil], library: coverage.library, environment: coverage.environment)
  end
  suite.wait
  coverage.report
end

# Whichever of these tasks ran, in whatever order: the sum is the last line.
at_exit { suite.finish(interrupted: !$!.nil?) if suite.any? }
