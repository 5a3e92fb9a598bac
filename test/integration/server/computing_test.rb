# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"
require "json"

# Requests that compute: those with a place wait for the processor, however long that takes.
class ServerComputingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # max_wait is for requests without a place, however long the others compute.
  def test_a_wait_for_the_processor_is_none_for_a_place
    serve_computing(0.02, queue: {max_wait: 0.01})
    assert_equal [200] * 20, at_once(20).map { |wire| wire.answer.status }
    assert_equal 0, server.stats[:refused].values.sum
  end

  def test_beyond_max_in_flight_it_is_one_for_a_place
    serve_computing(0.1, max_in_flight: 3, queue: {max_wait: 0.05})
    assert_equal [200] * 3 + [503] * 4, at_once(7).map { |wire| wire.answer.status }
    await_refused(queue_max_wait: 4)
  end

  def test_a_place_that_is_free_is_for_the_one_that_came_first
    order = []
    steps = gate
    serve(max_in_flight: 1) { |env| (order << env["PATH_INFO"]) && steps.pop && HELLO.call(env) }
    wires = [connect << get("/0") << get("/3")] # its second request is sent when the first has been answered
    await_stats(in_flight: 1)
    (1..2).each { |n| (wires << (connect << get("/#{n}"))) && await_stats(queued: n) }
    4.times { steps << 1 }
    wires.each(&:answer)
    wires.first.answer
    assert_equal %w[/0 /1 /2 /3], order
  end

  # One with a place, and one without; the server checks for gone clients only after a while.
  def test_requests_of_gone_clients_are_dropped
    seen = nil
    serve_computing(0.15, max_in_flight: 3, queue: {max_wait: 60}) do |env|
      next unless env["PATH_INFO"] == "/0"
      seen = server.stats.slice(:in_flight, :ready, :queued)
      [@at_once[1], @at_once[4]].each(&:reset)
    end
    wires = at_once(5)
    assert_equal [200] * 3, wires.values_at(0, 2, 3).map { |wire| wire.answer.status }
    assert_equal({in_flight: 1, ready: 2, queued: 2}, seen)
    await_stats(dropped: 2, answered: 4, in_flight: 0, ready: 0, queued: 0)
    assert_equal %w[/hold /0 /2 /3], @order.sort_by { |path| (path == "/hold") ? -1 : path[1..].to_i }
  end

  # ---- max_queue_time ----

  def test_a_limit_of_the_wait_for_the_processor
    access = StringIO.new
    serve_computing(0.6, max_queue_time: 0.5, linger_timeout: 0.1, access_log: :json, access_log_to: access)
    assert_equal [200, 503, 503, 503], at_once(4).map { |wire| wire.answer.status }
    assert_match(/max_queue_time: a request from 127\.0\.0\.1 is refused with 503: it waited 0\.60 s for the processor, the limit is 0\.5 s/,
      await_refused(max_queue_time: 3).first)
    server.stop
    refused = access.string.lines.map { |line| JSON.parse(line, symbolize_names: true) }.select { |line| line[:status] == 503 }
    assert_equal %w[/1 /2 /3], refused.map { |line| line[:path] }
    assert_equal ["127.0.0.1", "GET", 19], refused.first.values_at(:remote, :method, :bytes)
    refused.each { |line| assert_in_delta 0.6, line[:queue_seconds], 1e-3 }
  end

  def test_that_limit_holds_for_the_wait_for_a_place_too
    steps = gate
    serve(max_in_flight: 1, max_queue_time: 0.5) { |env| steps.pop && HELLO.call(env) }
    first = connect << get
    await_stats(in_flight: 1)
    assert_equal 503, assert_after(0.5) { ask(get).status }
    assert_match(/it waited 0\.50 s for a place \(max_in_flight\), the limit is 0\.5 s/, await_refused(max_queue_time: 1).first)
    steps << 1
    assert_equal 200, first.answer.status
  end

  # ---- other requests meanwhile ----

  def test_a_burst_is_answered_whole_and_oldest_first
    serve_computing(0.05)
    idle = connect << get("/idle")
    assert_equal 200, idle.answer.status
    assert_equal [200] * 100, at_once(100).map { |wire| wire.answer.status }
    paths = @order.grep(/\d/)
    paths.sort_by! { |path| path[1..].to_i } if NeverBlock.engine.name == "poll" # poll reports ready descriptors, not their order
    assert_equal Array.new(100) { |n| "/#{n}" }, paths
    assert_equal 200, (idle << get("/idle")).answer.status
    assert_equal 0, server.stats[:refused].values.sum
  end

  # Few computing requests run, however many have a place: with workers, other workers should take the connections.
  def test_it_is_full_when_all_places_are_taken
    told = 0
    serve_computing(0.02, max_in_flight: 5)
    server.events.on_full = -> { told += 1 }
    assert_equal [200] * 4, at_once(4).map { |wire| wire.answer.status }
    assert_equal 0, told
    assert_equal [200] * 8, at_once(8).map { |wire| wire.answer.status }
    assert_operator told, :>, 0
  end

  # Each takes longer than a turn of the loop should: so there is a turn between any two of them.
  def test_timers_fire_and_connections_are_accepted_between_them
    newcomer = Socket.new(:INET, :STREAM)
    accepted, fired = [], nil
    serve_computing(0.02) do |env|
      accepted << server.stats[:accepted]
      next unless env["PATH_INFO"] == "/5"
      newcomer.connect_nonblock(Socket.sockaddr_in(server.addresses.first[/\d+\z/].to_i, "127.0.0.1"), exception: false)
      NeverBlock.spawn { sleep(0.001) && fired = accepted.size }
    end
    assert_equal [200] * 40, at_once(40).map { |wire| wire.answer.status }
    assert_equal [41, 42], accepted.values_at(5, 8), "the newcomer has been accepted"
    assert_operator fired, :<=, 9, "so many had run when the timer fired"
  ensure
    newcomer.close
  end

  private

  # The app computes for some seconds, after the block; at /hold it first sends all other requests.
  def serve_computing(seconds, **directives)
    @order = []
    serve(**directives) do |env|
      @order << env["PATH_INFO"]
      if env["PATH_INFO"] == "/hold" then @at_once.each_with_index { |wire, n| wire << get("/#{n}") }
      elsif block_given? then yield env
      end
      compute(seconds)
      HELLO.call(env)
    end
  end

  # @return [Array<Wire>] whose requests the server finds in one turn
  def at_once(count)
    before = server.stats[:connections]
    @at_once = Array.new(count) { connect }
    await_stats(connections: before + count)
    assert_equal 200, (connect << get("/hold")).answer.status
    @at_once
  end
end
