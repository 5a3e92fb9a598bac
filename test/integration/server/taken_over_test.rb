# frozen_string_literal: true

# engines: every - each accepts, and pauses, in its own way

require "test_helper"
require "support/served_in_time"

# Hijacked connections whose request is over, such as Action Cable's: the server has no call for their close.
class ServerTakenOverTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # Responds to /hijack with nothing, and hands its socket to the test.
  # @return [Thread::Queue] of sockets
  def serve_hijacked(**)
    sockets = gate
    serve(**) { |env| (env["PATH_INFO"] == "/hijack") ? sockets << env["rack.hijack"].call : HELLO.call(env) }
    sockets
  end

  def test_each_counts_as_a_connection_until_the_app_closes_it
    sockets = serve_hijacked(max_connections: 3)
    3.times { connect << get("/hijack") }
    await_stats(connections: 3, taken_over: 3, in_flight: 0, streams: 0, hijacked: 3)
    waiting = connect << get
    assert_match(/accepting pauses: 3 connections are open, none of them idle \(max_connections\)/, await_log.join)
    sockets.pop.close
    assert_equal "hello", waiting.answer.body
    2.times { sockets.pop.close }
    await_stats(connections: 1, taken_over: 0)
  end

  def test_each_counts_as_a_connection_of_its_address
    sockets = serve_hijacked(max_connections_per_address: 1)
    connect << get("/hijack")
    await_stats(taken_over: 1, in_flight: 0)
    assert_predicate connect, :ended?
    assert_match(/1 of that address are open/, await_log.join)
    sockets.pop.close
    await_stats(taken_over: 0)
    assert_equal "hello", ask(get).body
  end

  # The descriptor may belong to a file when the server looks.
  def test_a_number_that_is_another_file_s_is_no_connection
    numbers = gate
    serve { |env| env["rack.hijack"].call.then { |io| (numbers << io.fileno) && io.close } }
    wire = connect << get
    wire.rest
    number, kept = numbers.pop, []
    kept << File.open(File::NULL) until kept.any? { |file| file.fileno == number }
    await_stats(taken_over: 0, connections: 0, hijacked: 1)
  ensure
    kept&.each(&:close)
  end

  def test_a_stop_does_not_wait_for_it
    sockets = serve_hijacked
    wire = connect << get("/hijack")
    io = sockets.pop
    assert_after(0..1) { assert server.stop(timeout: 60) }
    io << "still the app's"
    io.close
    assert_equal "still the app's", wire.rest
  end
end
