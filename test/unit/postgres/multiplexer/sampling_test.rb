# frozen_string_literal: true

require "test_helper"
require "support/fake_multiplexer"

# Any connection, for calls that send nothing to the server.
class PostgresMultiplexerSamplingTest < Minitest::Test
  include NeverBlockTest::FakeMultiplexer

  def test_verify_opens_one_connection_for_all
    in_loop do
      multiplexer = multiplexer(connections: 3)
      Array.new(3) { NB.spawn { multiplexer.verify } }.each(&:value)
      assert_equal 1, @factory.opened.size
      multiplexer.verify
      @factory.opened.first.break_off(PG::ConnectionBad.new("gone"))
      @factory.failure = PG::ConnectionBad.new("refused")
      assert_raises(PG::ConnectionBad) { multiplexer.verify }
    end
  end

  def test_a_sample_fits_the_session_defaults
    in_loop do
      multiplexer = multiplexer(connections: 2)
      assert_same pgs.first || multiplexer.sample { |pg| pg }, multiplexer.sample { |pg| pg }
      assert_equal 1, @factory.opened.size
      pgs.first.parameters["TimeZone"] = "Asia/Tokyo"
      assert_same pgs.first, multiplexer.sample(defaults, whole: true, settings: ["TimeZone"]) { |pg| pg }, "no lease holds it"
    end
  end
end
