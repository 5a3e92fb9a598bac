# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/long/record"
require "support/long/soak"

# Minutes of mixed traffic: the server's resources are afterwards what they were before.
class LongSoakTest < Minitest::Test
  ROUNDS = 16
  SECONDS = [Integer(ENV.fetch("NEVERBLOCK_LONG_SECONDS", "160")) / ROUNDS, 1].max

  # Memory may still settle, and its measurement is coarse; a leak of 100 bytes a request would be several times this.
  PSS = 2 << 20
  OBJECTS = 2_000

  def test_nothing_grows
    soak = NeverBlockTest::Soak.new(rounds: ROUNDS, seconds: SECONDS, seed: Integer(ENV.fetch("SEED", "1"))).call
    held = soak.samples.drop(1).map { |sample| sample.values_at("descriptors", "threads") }
    assert_empty soak.wrong
    assert_equal held.first, held.last, "descriptors and threads"
    assert_operator soak.growth("objects"), :<=, OBJECTS, soak.samples.map { |sample| sample["objects"] }.inspect
    assert_operator soak.growth("pss"), :<=, PSS, soak.samples.map { |sample| sample["pss"] }.inspect
    record(soak)
  end

  private

  def record(soak)
    first, middle, last = soak.samples.values_at(1, soak.samples.size / 2, -1)
    server = last["server"]
    NeverBlockTest::Record.add("soak", engine: NeverBlock.engine.name, seconds: ROUNDS * SECONDS, requests: server["requests"],
      connections: server["accepted"], refused: server["refused"].values_at("queue_limit", "queue_max_wait").sum, failed: server["failed"],
      left: server["dropped"] + server["cut"], broken: server["refused"].values_at("bad_request", "uri_too_long", "header_fields_too_large").sum, late: server["timeouts"], kinds: soak.visits.size,
      pss: [first, middle, last].map { |sample| sample["pss"] }, objects: [first, middle, last].map { |sample| sample["objects"] },
      descriptors: [first, middle, last].map { |sample| sample["descriptors"].values.sum })
  end
end
