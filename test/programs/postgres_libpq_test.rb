# frozen_string_literal: true

# slow: it runs other test files in a process of its own

require "test_helper"
require_relative "../support/postgres"

# pg compiled against the system's libpq, which may be older than 17 and then lacks PQsendPipelineSync and Close: other
# calls replace them.
class PostgresLibpqTest < Minitest::Test
  include NeverBlockTest::Helpers

  GEMFILE = File.join(NeverBlockTest::ROOT, "test", "apps", "libpq.gemfile")

  # From test/integration: each way of sending, of ending and of being interrupted.
  FILES = %w[postgres_test.rb postgres/statements_test.rb postgres/connections_test.rb postgres/leases_test.rb postgres/virtual_connection_test.rb postgres/tls_test.rb].freeze
  NAMES = /thousand_fibers|without_parameters|error_stays|can_t_be_sent|test_transactions|name_that_is_given_up|stale_plan|copies|cancelled_statement|left_behind|lost_connection|beside_a_stock|another_fiber|verified/

  def test_the_tests_of_shared_connections
    reason = NeverBlockTest::PostgresServer.missing || ("pg is not among the gems here" unless Gem.loaded_specs.key?("pg")) ||
      ("bin/setup has not compiled pg against the system's libpq" unless File.exist?("#{GEMFILE}.lock"))
    skip reason if reason
    program = FILES.map { |file| "require #{File.join(NeverBlockTest::ROOT, "test", "integration", file).inspect}" }.join("\n")
    outcome = run_ruby(<<~RUBY, gems: true, environment:, options: ["-I", File.join(NeverBlockTest::ROOT, "test"), "-rbundler/setup"])
      ARGV.push("-n", #{NAMES.inspect.inspect})
      #{program}
      Minitest.after_run { puts "libpq \#{PG.library_version}, coalesces: \#{NeverBlock::Postgres::Wire::COALESCES}" }
    RUBY
    assert outcome.status.success?, outcome.stdout + outcome.stderr
    runs = outcome.stdout[/(\d+) runs, \d+ assertions, 0 failures, 0 errors, 0 skips/, 1].to_i
    assert_operator runs, :>, 12, outcome.stdout
    version = outcome.stdout[/libpq (\d+)/, 1].to_i
    assert_equal version >= 170_000, outcome.stdout.include?("coalesces: true"), outcome.stdout
  end

  private

  def environment
    {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(NeverBlockTest::ROOT, "vendor", "bundle"), "BUNDLE_VERSION" => "system", "RUBYOPT" => nil, "RUBYLIB" => nil, "NEVERBLOCK_TALLY" => nil}
  end
end
