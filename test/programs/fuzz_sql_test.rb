# frozen_string_literal: true

# chaos: random programs for 15 s, and planted defects (10 s)

require "test_helper"
require "rbconfig"
require "support/postgres"

# Random programs of SQL on the stock adapter and on ours: see test/fuzz/sql. A failure prints its seed, the program and
# both results.
class FuzzSqlTest < Minitest::Test
  include NeverBlockTest::Helpers

  # The same programs each time, so that a failure points to the change; `rake fuzz:sql` begins at a random seed.
  PROGRAMS = Integer(ENV.fetch("NEVERBLOCK_FUZZ_PROGRAMS", "5"))
  FROM = Integer(ENV.fetch("NEVERBLOCK_FUZZ_SEED", "8"))

  def setup
    reason = NeverBlockTest::PostgresServer.missing || ("pg and activerecord are not among the gems here" unless %w[pg activerecord].all? { |name| Gem.loaded_specs.key?(name) })
    skip reason if reason
  end

  def test_random_programs_do_the_same_on_our_adapter_as_on_the_stock_one
    output, status = fuzz("PROGRAMS" => PROGRAMS.to_s, "FROM" => FROM.to_s)
    assert_predicate status, :success?, output
    assert_match(/^\d+ runs, \d+ operations, 0 seeds failed$/, output)
  end

  # A comparison that finds nothing might not work.
  def test_planted_defects_are_found
    output, status = fuzz("PLANTS" => "1")
    assert_predicate status, :success?, output
    assert_match(/^\d+ planted defects, 0 faults of the checks$/, output)
  end

  private

  def fuzz(variables)
    engine = ENV["NEVERBLOCK_ENGINE"].to_s.split(",").first
    libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], "lib"].map { |folder| "-I#{folder}" }
    Open3.capture2e({"ENGINE" => engine, **variables}, RbConfig.ruby, "-w", *libraries, "-rbundler/setup", "test/fuzz/sql/run.rb", chdir: NeverBlockTest::ROOT)
  end
end
