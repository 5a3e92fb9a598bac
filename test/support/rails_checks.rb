# frozen_string_literal: true

require_relative "rails_app"

module NeverBlockTest
  # Checks of a Rails app in one file, in a process of their own with the gems of Rails: test/apps/NAME/checks.rb, which
  # are tests themselves. The database is a PostgreSQL of the tests.
  #
  #   class RailsPagesTest < Minitest::Test
  #     include NeverBlockTest::RailsChecks
  #
  #     def test_pages_in_the_path = check("rails_pages")
  #   end
  module RailsChecks
    PASSED = /^\d+ runs, \d+ assertions, 0 failures, 0 errors, 0 skips$/

    private

    # @param name [String] of the folder
    def check(name)
      reason = RailsApp.missing and skip reason
      checks = File.join(ROOT, "test", "apps", name, "checks.rb")
      PostgresServer.open do |postgres|
        output, status = Open3.capture2e(environment(postgres), "timeout", "-k", "5", RailsApp::LIMIT.to_s, RbConfig.ruby, "-rbundler/setup", checks)
        assert status.success?, output
        assert_match PASSED, output
      end
    end

    def environment(postgres)
      gemfile = File.join(RailsApp::FOLDER, "#{RailsApp::VERSION}.gemfile")
      {"BUNDLE_GEMFILE" => gemfile, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"),
       "RUBYOPT" => nil, "RUBYLIB" => nil, "RAILS_ENV" => "test", "RACK_ENV" => nil, "DATABASE_URL" => nil,
       "PGHOST" => postgres.folder, "PGPORT" => postgres.port.to_s, "PGUSER" => postgres.user}
    end
  end
end
