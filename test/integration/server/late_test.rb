# frozen_string_literal: true

# engines: every - io_uring may have received what the loop has not looked at

require "test_helper"
require "support/served_in_time"

# Deadlines apply to clients, not to the server's own delays.
class ServerLateTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # On a first request, and between two.
  def test_requests_that_arrived_while_an_app_computed_are_answered
    serve_computing(15, head_timeout: 10, idle_timeout: 10) { wires.first(2).each { |wire| wire << get } }
    first, second = Array.new(2) { connect }
    assert_equal 200, (second << get).answer.status
    computing = connect << get("/compute")
    assert_equal ["in time"] * 3, assert_after(15) { [computing, first, second].map { |wire| wire.answer.body } }
  end

  def test_half_a_request_is_no_request_in_time
    serve_computing(15, head_timeout: 10) { wires.first << " HTTP/1.1\r\n" }
    half = connect << "GET /"
    computing = connect << get("/compute")
    assert_equal [408, 200], assert_after(15) { [half, computing].map { |wire| wire.answer.status } }
    await_refused(head_timeout: 1)
  end

  private

  # The app computes for so many seconds, after the block.
  def serve_computing(seconds, **)
    serve(**) do |env|
      if env["PATH_INFO"] == "/compute"
        yield
        compute(seconds)
      end
      [200, {}, ["in time"]]
    end
  end
end
