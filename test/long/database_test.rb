# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/long/database_soak"
require "support/long/record"

# Ten minutes of every database operation under every kind of fault, on all engines together, and ten more through
# PgBouncer: no statement is lost, crossed, doubled or left behind, and the resources of the process are afterwards what
# they were before.
class LongDatabaseTest < Minitest::Test
  ROUNDS = 20
  SECONDS = Integer(ENV.fetch("NEVERBLOCK_LONG_DATABASE", "200")).fdiv(ROUNDS)

  # Memory may still settle, and its measurement is coarse.
  PSS = 6 << 20
  OBJECTS = 2_000

  def test_nothing_is_lost_crossed_doubled_or_left = soak("nothing")

  def test_nothing_is_lost_crossed_doubled_or_left_through_a_pooler
    pooler = NeverBlockTest::PgBouncer.newer || NeverBlockTest::PgBouncer.installed
    reason = NeverBlockTest::PgBouncer.missing(pooler) and skip reason
    soak("PgBouncer", pooler:)
  end

  private

  def soak(between, **options)
    reason = NeverBlockTest::DatabaseSoak.missing and skip reason
    soak = NeverBlockTest::DatabaseSoak.new(rounds: ROUNDS, seconds: SECONDS, seed: Integer(ENV.fetch("SEED", "1")), **options).call
    assert_empty soak.wrong
    assert_operator soak.backends, :<=, NeverBlockTest::DatabaseSoak::CONNECTIONS
    soak.settled("descriptors", "threads").each { |what, held| assert_operator held.last, :<=, held.first, what }
    assert_operator soak.growth("objects"), :<=, OBJECTS, soak.samples.map { |sample| sample["objects"] }.inspect
    assert_operator soak.growth("pss"), :<=, PSS, soak.samples.map { |sample| sample["pss"] }.inspect
    record(between, soak)
  end

  def record(between, soak)
    first, middle, last = soak.samples.values_at(1, soak.samples.size / 2, -1)
    NeverBlockTest::Record.add("database", engine: NeverBlock.engine.name, between:, seconds: (ROUNDS * SECONDS).round, done: soak.done.values.sum, kinds: soak.done.size,
      failed: soak.ended.values.sum - soak.done.values.sum, faults: soak.faults.sort.to_h, wrong: soak.wrong.size, backends: soak.backends,
      pss: [first, middle, last].map { |sample| sample["pss"] }, objects: [first, middle, last].map { |sample| sample["objects"] },
      descriptors: [first, middle, last].map { |sample| sample["descriptors"] })
  end
end
