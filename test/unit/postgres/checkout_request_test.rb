# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"

class PostgresCheckoutRequestTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  # Its text is for the errors of requests that have timed out: the holder of each connection, and since when.
  def test_its_text_tells_for_how_long_it_has_had_its_connection
    request = NeverBlock::Postgres::CheckoutRequest.new(NeverBlock::Postgres::SessionDefaults::EMPTY, "BEGIN")
    request.queued
    clock.advance(30)
    assert_equal "BEGIN (a thread), for 30.0 s", request.to_s
    request.granted(:connection)
    assert_in_delta 30, request.queue_time
    assert_equal "BEGIN (a thread), for 0.0 s", request.to_s
  end
end
