# frozen_string_literal: true

# chaos: random traffic and faults (50 s)

require "test_helper"
require "neverblock"
require "support/long/database_soak"

# The soak of `bin/test --long`, here for half a minute instead of ten.
class PostgresSoakTest < Minitest::Test
  ROUNDS = 4
  SECONDS = 5.0
  ACTS = 28 # of about thirty kinds

  def test_everything_at_once = soak(ROUNDS)

  def test_everything_at_once_through_a_pooler
    pooler = NeverBlockTest::PgBouncer.newer || NeverBlockTest::PgBouncer.installed
    reason = NeverBlockTest::PgBouncer.missing(pooler) and skip reason
    soak(ROUNDS / 2, pooler:)
  end

  private

  def soak(rounds, **options)
    reason = NeverBlockTest::DatabaseSoak.missing and skip reason
    soak = NeverBlockTest::DatabaseSoak.new(rounds:, seconds: SECONDS, acts: ACTS, seed: Integer(ENV.fetch("SEED") { Random.new_seed % 1_000_000 }), **options).call
    assert_empty soak.wrong, "SEED=#{soak.seed}"
    assert_operator soak.backends, :<=, NeverBlockTest::DatabaseSoak::CONNECTIONS
    soak.settled("descriptors", "threads").each { |what, held| assert_operator held.last, :<=, held.first, what }
    assert_operator soak.done.values.sum, :>=, 4 * ACTS
    assert_operator soak.done.size, :>=, ACTS, "too few kinds of acts came to their end: #{soak.done.keys}"
  end
end
