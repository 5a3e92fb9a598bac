# frozen_string_literal: true

# engines: one - it looks at texts

require "test_helper"

class PostgresClaimTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  # Its text is for messages of those who wait in vain: who keeps a connection from them, and since when.
  slow "it waits until there is a time to tell"
  def test_its_text_tells_for_how_long_it_has_had_its_connection
    claim = NeverBlock::Postgres::Claim.new(NeverBlock::Postgres::Profile::EMPTY, "BEGIN")
    claim.queued
    sleep 0.3
    assert_match(/\ABEGIN \(a thread\), for 0\.[3-9] s\z/, claim.to_s)
    claim.granted(:connection)
    assert_operator claim.queue_time, :>=, 0.3
    assert_match(/\ABEGIN \(a thread\), for 0\.[0-2] s\z/, claim.to_s)
  end
end
