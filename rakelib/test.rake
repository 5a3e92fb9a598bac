# frozen_string_literal: true

# The test suite, each part in processes of its own, once per engine, several at a time:
#
#   rake test                                  # everything
#   rake test:unit                             # one part
#   NEVERBLOCK_ENGINE=poll rake test:unit      # one engine
#   TESTS="test/unit/task_test.rb" rake test   # files, or a part of test names
#
# One failing run does not stop the others; the end is one line that adds up all.
require "shellwords"
require_relative "../test/support/suite"

suite = NeverBlockTest::Suite.new(selection: Shellwords.split(ENV.fetch("TESTS", "")))

namespace :test do
  desc "Test each class by itself, on every engine"
  task(unit: :compile) { suite.run_files("unit", "test/unit/**/*_test.rb") }

  desc "Test programs that use real servers, processes and files, on every engine"
  task(integration: :compile) { suite.run_files("integration", "test/integration/**/*_test.rb") }

  desc "Test whole programs that need not be tried on every engine: the demo, the docs, frameworks, clusters"
  task(programs: :compile) { suite.run_files("programs", "test/programs/**/*_test.rb", engines: [nil]) }

  # What the missing headers change: readiness, transfers, processes, wake-ups, and all that rests on them.
  portable = "test/unit/{block,cancel,condition,connector,descriptors,fairness,hooks,interrupts,io,offload,process,run,scope," \
    "select,sleep,standalone,task,threads,timeout,transfer}*_test.rb"

  desc "Test what rests on the engine with the portable one, compiled as if there were no Linux headers"
  task portable: :compile do
    next if suite.selective? && ENV["NEVERBLOCK_ENGINE"].to_s != "poll"
    build = ExtensionBuild.new(variant: "portable", arguments: ["--disable-linux"])
    build.call
    suite.run_files("portable", portable, engines: ["poll"], library: build.library)
  end

  desc "Test the project itself: set-up, packaging"
  task(setup: :compile) { suite.run_files("setup", "test/setup/**/*_test.rb", engines: [nil]) }

  desc "Run the part of Ruby's own tests that belongs to every test run, on every engine"
  task conformance: :compile do
    if suite.selective?
      puts "Ruby's own tests are left out of a selection: rake conformance:ci runs them"
    elsif Rake::Task.task_defined?("conformance:ci")
      suite.run_task("conformance", "conformance:ci")
    end
  end

  rails = %w[7.2 8.0 8.1]

  # bin/setup has those of the newest.
  task :rails_gems do
    rails.each do |version|
      variables = {"BUNDLE_GEMFILE" => "test/apps/rails/#{version}.gemfile", "BUNDLE_PATH" => File.expand_path("vendor/bundle"), "BUNDLE_VERSION" => "system"}
      Bundler.with_unbundled_env { sh(variables, "bundle check >/dev/null 2>&1 || bundle install --jobs 4 --retry 3") }
    end
  end

  # Its findings become docs/server-tests.md, if all went well; NEVERBLOCK_LONG_SECONDS, _DATABASE, _FUZZ, _DEPLOYS and _REQUESTS shorten it.
  desc "Watch the server for minutes: mixed traffic, a database with faults, 10,000 idle connections, deploys, killed workers, the fuzzer"
  task long: %i[compile rails_gems] do
    record = File.join(NeverBlockTest::Suite::ROOT, "tmp", "long.jsonl")
    FileUtils.mkdir_p(File.dirname(record))
    File.write(record, "")
    ENV["NEVERBLOCK_LONG_RECORD"] = record
    suite.run_files("long", "test/long/{database,idle,operations,soak}_test.rb")
    rails.each do |version|
      environment = {"NEVERBLOCK_RAILS" => version, "NEVERBLOCK_LONG_DEPLOYS" => ENV.fetch("NEVERBLOCK_LONG_DEPLOYS", "20")}
      suite.run_files("Rails #{version}", "test/programs/rails_*test.rb", engines: [nil], environment:)
      suite.run_files("Rails #{version} growth", "test/long/rails_test.rb", engines: [nil], environment:)
    end
    suite.run_files("long fuzz", "test/long/fuzz_test.rb", engines: [nil])
    suite.wait # the page is about all of them
    suite.run_task("page", "test:long_page", engines: [nil], tally: false)
  end

  task(:long_page) { ruby "script/server_tests_page.rb", ENV.fetch("NEVERBLOCK_LONG_RECORD") }

  task :lint do
    next if suite.selective?
    # bin/setup leaves the style tools out on preview Rubies.
    if Gem.loaded_specs.key?("standard")
      suite.run_task("Ruby style", "lint:ruby", engines: [nil], tally: false)
      suite.run_task("signatures", "lint:sig", engines: [nil], tally: false) if Dir.exist?("sig")
    end
    suite.run_task("C warnings", "lint:c", engines: [nil], tally: false)
  end
end

# The programs, one run that is as long as three others, begin before the other real servers: else a processor waits for it.
desc "Run all tests and checks"
task test: %w[test:unit test:portable test:programs test:integration test:setup test:conformance test:lint] do
  abort "bin/test: no test file or name matches #{ENV["TESTS"].to_s.strip}; see bin/test --help" unless suite.any?
end

# Whichever of these tasks ran, in whatever order: the sum is the last line.
at_exit { suite.finish(interrupted: !$!.nil?) if suite.any? }
