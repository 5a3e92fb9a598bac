# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "support/long/record"

# The parser with random bytes under the sanitizers, for minutes.
class FuzzTest < Minitest::Test
  SECONDS = Integer(ENV.fetch("NEVERBLOCK_LONG_FUZZ", "300"))

  def test_nothing_is_found
    environment = {"TIME" => SECONDS.to_s, "SEED" => Time.now.to_i.to_s}
    output, status = Open3.capture2e(environment, RbConfig.ruby, Gem.bin_path("rake", "rake"), "fuzz:http", chdir: NeverBlockTest::ROOT, stdin_data: "")
    assert_predicate status, :success?, output
    executions, edges = output.match(/^(\d+) executions, \d+ inputs kept, (\d+) edges, 0 findings$/).captures.map(&:to_i)
    assert_operator executions, :>, 1_000
    NeverBlockTest::Record.add("fuzz", seconds: SECONDS, seed: environment["SEED"].to_i, executions:, edges:)
  end
end
