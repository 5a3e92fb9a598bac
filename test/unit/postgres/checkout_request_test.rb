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

  def test_it_is_urgent_if_its_fiber_owns_a_lock_that_others_wait_for
    request = NeverBlock::Postgres::CheckoutRequest.new(NeverBlock::Postgres::SessionDefaults::EMPTY, "BEGIN")
    mine, other = Thread::Mutex.new, Thread::Mutex.new
    mine.synchronize do
      refute_predicate request, :urged?
      request.ask([other])
      assert request.park(0), "its fiber was woken to tell"
      refute_predicate request, :urged?
      request.ask([other])
      refute request.park(0), "it has told"
      request.ask([other, mine])
      assert request.park(0)
      assert_equal [true, true, false], [request.urged?, request.urgent?, request.urged?]
    end
  end
end
