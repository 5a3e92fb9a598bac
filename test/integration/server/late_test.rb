# frozen_string_literal: true

# engines: every - io_uring may have received what the loop has not looked at

require "test_helper"
require "support/served"

# Deadlines apply to clients, not to the server's own delays.
class ServerLateTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  SECONDS = 0.5

  # On a first request, and between two.
  slow "an app that computes"
  def test_requests_that_arrived_while_an_app_computed_are_answered
    serve_computing(head_timeout: SECONDS, idle_timeout: SECONDS)
    wires = Array.new(2) { connect }
    await_stats(connections: 2)
    (wires.last << get).answer
    computing = while_it_computes { wires.each { |wire| wire << get } }
    assert_equal ["in time"] * 3, [computing, *wires].map { |wire| wire.answer.body }
  end

  slow "an app that computes"
  def test_half_a_request_is_no_request_in_time
    serve_computing(head_timeout: SECONDS)
    half = connect << "GET /"
    computing = while_it_computes { half << " HTTP/1.1\r\n" }
    assert_equal [408, 200], [half, computing].map { |wire| wire.answer.status }
    await_refused(head_timeout: 1)
  end

  private

  def serve_computing(**)
    @busy = @done = false
    serve(**) do |env|
      if env["PATH_INFO"] == "/compute"
        @busy = true
        nil until @done
      end
      [200, {}, ["in time"]]
    end
  end

  # Runs the block, and lets all deadlines pass while the loop is blocked.
  # @return [Wire] that waits for the computed answer
  def while_it_computes
    wire = connect << get("/compute")
    wait_until("the computing") { @busy }
    yield
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1.5 * SECONDS
    wait_until("the deadlines") { Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline }
    @done = true
    wire
  end
end
