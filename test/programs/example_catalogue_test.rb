# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "fileutils"
require "tmpdir"
require "support/rails_checks"

# The system tests of examples/catalogue, in a copy of the app, and its start as a user would do it.
class ExampleCatalogueTest < Minitest::Test
  include NeverBlockTest::RailsChecks

  APP = File.join(NeverBlockTest::ROOT, "examples", "catalogue")

  def test_the_app
    reason = NeverBlockTest::RailsApp.missing and skip reason
    reason = "it is for Rails 8.1" if NeverBlockTest::RailsApp::VERSION < "8.1"
    skip reason if reason
    NeverBlockTest::PostgresServer.open do |postgres|
      Dir.mktmpdir("nb") do |folder|
        FileUtils.cp_r("#{APP}/.", folder)
        system_tests(folder, environment(postgres).merge("PGDATABASE" => "postgres"))
        start(folder, environment(postgres).merge("RAILS_ENV" => "development"))
      end
    end
  end

  private

  def system_tests(folder, environment)
    output, status = run_in(folder, environment, "bin/rails", "test:system")
    assert status.success?, output
    assert_match PASSED, output
  end

  def start(folder, environment)
    output, status = run_in(folder, environment, "bin/rails", "db:setup")
    assert status.success?, output
    command = ["bin/rails", "server", "-p", "0", "-b", "127.0.0.1"]
    NeverBlockTest::ServeProcess.open(->(_) { folder }, command:, environment:, ruby: ["-W0"], library: []) do |served|
      assert_includes served.body("/products"), "Product 1<"
      assert_match(/^cache-status: NeverBlock; hit/i, served.get("/products"))
    end
  end

  def run_in(folder, environment, *words)
    Open3.capture2e(environment, "timeout", "-k", "5", NeverBlockTest::RailsApp::LIMIT.to_s, RbConfig.ruby, "-W0", *words, chdir: folder)
  end
end
