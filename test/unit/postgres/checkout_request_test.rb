# frozen_string_literal: true

require "test_helper"

class PostgresCheckoutRequestTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  # Its text is for the errors of requests that have timed out: the holder of each connection, and since when.
  def test_its_text_tells_for_how_long_it_has_had_its_connection
    request = NeverBlock::Postgres::CheckoutRequest.new(NeverBlock::Postgres::SessionDefaults::EMPTY, "BEGIN")
    request.queued
    request.instance_variable_set(:@since, request.queued_at - 30)
    assert_match(/\ABEGIN \(a thread\), for 3\d\.\d s\z/, request.to_s)
    request.granted(:connection)
    assert_operator request.queue_time, :>=, 30
    assert_match(/\ABEGIN \(a thread\), for \d\.\d s\z/, request.to_s)
  end
end
