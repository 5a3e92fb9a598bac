# frozen_string_literal: true

require "test_helper"
require "tempfile"
require "support/long/record"
require_relative "../../script/server_tests_page"

# docs/server-tests.md is made from the records of the long tests, and only from a whole run.
class ServerTestsPageTest < Minitest::Test
  SOAK = {what: "soak", engine: "poll", seconds: 160, requests: 1_234_567, connections: 98_765, refused: 1, failed: 2, left: 3, broken: 4, late: 5, kinds: 29,
          pss: [1 << 20, 2 << 20, 3 << 20], objects: [10, 2_000, 30], descriptors: [9, 8, 7]}.freeze
  IDLE = {what: "idle", engine: "poll", answered: 10_000, kept: 9_999, bytes: 691, objects: 0.01, pss_before: 16 << 20, pss_full: 24 << 20}.freeze
  DATABASE = {what: "database", engine: "poll", between: "nothing", seconds: 200, done: 80_001, kinds: 33, failed: 40_002, faults: {crash: 12, cut: 30}, wrong: 0, backends: 12,
              pss: [60 << 20, 61 << 20, 62 << 20], objects: [131_000, 132_000, 131_500], descriptors: [10, 11, 10]}.freeze
  POOLED = {**DATABASE, between: "PgBouncer", done: 70_001}.freeze
  DEPLOYS = {what: "deploys", engine: "poll", signal: "USR1", deploys: 20, refused: 6, requests: 12_345, lost: 0, seconds: 61}.freeze
  KILLS = {what: "kills", engine: "poll", kills: 20, requests: 23_456, connections: 99, lost: 88, strays: 0, seconds: 31}.freeze
  GROWTH = {what: "growth", engine: "poll", requests: 200_123, before: 20 << 20, after: 21 << 20}.freeze
  CHAOS = {what: "chaos", engine: "poll", kills: {worker: 300, supervisor: 200}, requests: 98_765, lost: 1_234, strays: 0, slowest: 1.25, seconds: 611}.freeze
  OPERATIONS = [DEPLOYS, {**DEPLOYS, signal: "USR2"}, KILLS, GROWTH].freeze
  RAILS = %w[7.2.3 8.0.5 8.1.4].flat_map { |version| OPERATIONS.map { |record| {**record.except(:engine), Rails: version, requests: 3_456} } }.freeze
  FUZZ = {what: "fuzz", seconds: 300, executions: 5_000_000, edges: 1_900, seed: 7}.freeze

  def test_a_whole_run
    page = page(SOAK, DATABASE, POOLED, IDLE, *OPERATIONS, CHAOS, *RAILS, FUZZ)
    assert_empty page.missing
    text = page.to_s
    assert_match(/^- time: 2026-11-21T00:00:00Z$/, text)
    assert_match(/^\| poll +\| +160 \| +1,234,567 \| +98,765 \| +2 \| +1 \| +3 \| +4 \| +5 \| +1\.0 2\.0 3\.0 \| +10 2,000 30 \| +9 8 7 \|$/, text)
    assert_match(/^\| poll +\| +PgBouncer \| +200 \| +70,001 /, text)
    assert_match(/^\| poll +\| +nothing \| +200 \| +80,001 \| +40,002 \| +42 \| +0 \| +12 \| +60\.0 61\.0 62\.0 \| +131,000 132,000 131,500 \| +10 11 10 \|$/, text)
    assert_match(/^\| poll +\| +10,000 \| +9,999 \| +691 B \| +0\.01 \| +16\.0 \| +24\.0 \|$/, text)
    assert_match(/^\| poll +\| +USR2 \| +20 \| +6 \| +12,345 \| +0 \| +61 \|$/, text)
    assert_match(/^\| poll +\| +20 \| +23,456 \| +99 \| +88 \| +0 \|$/, text)
    assert_match(/^\| poll +\| +500 \| +300 \| +0 \| +0 \| +0 \| +200 \| +98,765 \| +1,234 \| +0 \| +1\.25 \| +611 \|$/, text)
    assert_match(/^\| poll +\| +200,123 \| +20\.0 \| +21\.0 \|$/, text)
    assert_match(/^\| 8\.1\.4 +\| +USR2 \| +20 \| +6 \| +3,456 \| +0 \| +61 \|$/, text)
    assert_match(/^\| 7\.2\.3 +\| +20 \| +3,456 \| +99 \| +88 \| +0 \|$/, text)
    assert_match(/^\| 8\.0\.5 +\| +3,456 \| +20\.0 \| +21\.0 \|$/, text)
    assert_match(/^\| 300 +\| +5,000,000 \| +1900 \| +7 \| +none \|$/, text)
  end

  def test_a_run_of_which_something_failed
    assert_equal ["soak and idle on every engine", "deploys on every Rails", "kills on every Rails", "growth on every Rails", "fuzz"], page.missing
    assert_equal ["fuzz"], page(SOAK, DATABASE, POOLED, IDLE, *OPERATIONS, CHAOS, *RAILS).missing
    assert_equal ["database on every engine"], page(SOAK, IDLE, *OPERATIONS, CHAOS, *RAILS, FUZZ).missing
    assert_equal ["database on every engine"], page(SOAK, DATABASE, IDLE, *OPERATIONS, CHAOS, *RAILS, FUZZ).missing
    assert_equal ["soak and idle on every engine"], page(SOAK, DATABASE, POOLED, *OPERATIONS, CHAOS, *RAILS, FUZZ).missing
    assert_equal ["soak and idle on every engine"], page(SOAK, DATABASE, POOLED, IDLE, {**IDLE, engine: "epoll"}, *OPERATIONS, CHAOS, *RAILS, FUZZ).missing
    assert_equal ["deploys on every engine", "growth on every engine"], page(SOAK, DATABASE, POOLED, IDLE, DEPLOYS, KILLS, CHAOS, *RAILS, FUZZ).missing
    assert_equal ["chaos on every engine"], page(SOAK, DATABASE, POOLED, IDLE, *OPERATIONS, *RAILS, FUZZ).missing
    assert_equal ["deploys on every Rails"], page(SOAK, DATABASE, POOLED, IDLE, *OPERATIONS, CHAOS, *RAILS.drop(1), FUZZ).missing
  end

  def test_records
    Tempfile.create("nb") do |file|
      before, ENV["NEVERBLOCK_LONG_RECORD"] = ENV["NEVERBLOCK_LONG_RECORD"], file.path
      assert_output(/idle/) { NeverBlockTest::Record.add("idle", engine: "poll", bytes: 1) }
      assert_equal [{"what" => "idle", "engine" => "poll", "bytes" => 1}], NeverBlockTest::Record.read(file.path)
    ensure
      ENV["NEVERBLOCK_LONG_RECORD"] = before
    end
  end

  private

  def page(*records) = ServerTestsPage.new(records.map { |record| JSON.parse(JSON.generate(record)) }, time: Time.utc(2026, 11, 21))
end
