# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"

# How many requests run, how many wait and for how long, and what becomes of the rest.
class ServerQueueTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  def test_so_many_run_at_once
    steps = serve_gated(max_in_flight: 3)
    wires = Array.new(10) { |n| connect << get("/wait#{n}") }
    await_stats(in_flight: 3, queued: 7)
    10.times { steps << 1 }
    assert_equal Array.new(10) { |n| "/wait#{n}" }, wires.map { |wire| wire.answer.body }
    await_stats(in_flight: 0, queued: 0, answered: 10)
  end

  def test_in_the_order_of_their_arrival
    order = []
    steps = gate
    serve(max_in_flight: 1) { |env| (order << env["PATH_INFO"]) && steps.pop && HELLO.call(env) }
    wires = Array.new(5) do |n|
      connect.tap { |wire| (wire << get("/#{n}")) && wait_until("its arrival") { server.stats.values_at(:in_flight, :queued).sum == n + 1 } }
    end
    5.times { steps << 1 }
    wires.each(&:answer)
    assert_equal %w[/0 /1 /2 /3 /4], order
  end

  def test_beyond_the_queue
    steps = serve_gated(max_in_flight: 1, queue: {limit: 2})
    waiting = Array.new(3) { |n| connect << get("/wait#{n}") }
    await_stats(in_flight: 1, queued: 2)
    wire = connect << get("/refused")
    answer = wire.answer
    assert_equal [503, "1", "text/plain", "the server is busy\n"], [answer.status, answer["retry-after"], answer["content-type"], answer.body]
    line = await_refused(queue_limit: 1).fetch(0)
    assert_match(/warn: queue_limit: a request from 127\.0\.0\.1 is refused with 503: 1 requests have a place \(max_in_flight\), and 2 wait for one \(queue limit\) \(GET \/refused\)\z/, line)
    3.times { steps << 1 }
    waiting.each { |one| assert_equal 200, one.answer.status }
    assert_equal 200, (wire << get("/again")).answer.status, "its connection may ask again"
    assert_equal 4, server.stats[:answered]
  end

  def test_no_queue_at_all
    steps = serve_gated(max_in_flight: 2, queue: {limit: 0})
    waiting = Array.new(2) { connect << get("/wait") }
    await_stats(in_flight: 2)
    wires = Array.new(20) { connect << get("/") }
    assert_equal [503] * 20, wires.map { |wire| wire.answer.status }
    2.times { steps << 1 }
    waiting.each { |wire| assert_equal 200, wire.answer.status }
    assert_equal 200, ask(get("/")).status
    await_log
  end

  # Of requests that arrive together while the loop is blocked, none exceeds the limit.
  def test_no_queue_for_those_that_come_at_once
    steps = gate
    running = []
    wires = nil
    serve(max_in_flight: 2, queue: {limit: 0}) do |env|
      running << env["PATH_INFO"]
      wires.each { |wire| wire << get("/") } if env["PATH_INFO"] == "/first"
      steps.pop
      HELLO.call(env)
    end
    wires = Array.new(10) { connect }
    first = connect << get("/first")
    assert_match(/ \(the last of 8 in 1\.0 s\)\z/, await_refused(queue_limit: 9).then { |lines| lines[1] || await_log.first })
    await_stats(in_flight: 2)
    2.times { steps << 1 }
    assert_equal [200] + [503] * 9, wires.map { |wire| wire.answer.status }.sort
    assert_equal [200, %w[/first /]], [first.answer.status, running]
  end

  def test_head_requests_and_bodies_are_refused_too
    steps = serve_gated(max_in_flight: 1, queue: {limit: 0})
    first = connect << get("/wait")
    await_stats(in_flight: 1)
    wire = connect << request("HEAD", "/")
    2.times do
      answer = wire.answer(head: true)
      assert_equal [503, "19", nil], [answer.status, answer["content-length"], answer["connection"]]
      assert_predicate wire, :quiet?
      wire << request("HEAD", "/")
    end
    wire.answer(head: true)
    wire = connect << request("POST", "/", "Content-Length: 1000000", "Expect: 100-continue")
    assert_equal [503, [], "close"], wire.answer.then { |answer| [answer.status, answer.interim, answer["connection"]] }
    assert_predicate wire, :ended?
    wire = connect << post("/", "x" * 100_000) << get
    assert_equal [503, "close"], wire.answer.then { |answer| [answer.status, answer["connection"]] }
    assert_predicate wire, :ended?
    steps << 1
    first.answer
    await_log
  end

  def test_a_pipeline_is_refused_as_one
    steps = serve_gated(max_in_flight: 1, queue: {limit: 0})
    first = connect << get("/wait")
    await_stats(in_flight: 1)
    wire = connect << get * 100
    assert_equal [503, "close"], wire.answer.then { |answer| [answer.status, answer["connection"]] }
    assert_predicate wire, :ended?
    steps << 1
    first.answer
    await_log
  end

  def test_too_long_in_the_queue
    steps = serve_gated(max_in_flight: 1, queue: {max_wait: 5})
    first = connect << get("/wait")
    await_stats(in_flight: 1)
    late = Array.new(3) { connect << get("/late") }
    answers = assert_after(5) { late.map(&:answer) }
    assert_equal [[503, "1"]] * 3, answers.map { |answer| [answer.status, answer["retry-after"]] }
    assert_match(/queue_max_wait: a request from 127\.0\.0\.1 is refused with 503: it waited 5\.00 s for a place \(max_in_flight\), the limit is 5 s/,
      await_refused(queue_max_wait: 3).fetch(0))
    assert_equal({queued: 0, ready: 0, in_flight: 1}, server.stats.slice(:queued, :ready, :in_flight))
    steps << 1
    assert_equal 200, first.answer.status
    late.each { |wire| assert_equal 200, (wire << get("/")).answer.status }
  end

  def test_queue_time
    steps = gate
    times = []
    serve(max_in_flight: 1) { |env| (times << env["neverblock.queue_time"]) && steps.pop && HELLO.call(env) }
    wires = [connect << get]
    await_stats(in_flight: 1)
    wires << (connect << get)
    await_stats(queued: 1)
    assert_kind_of Float, times.first
    sleep 1.5
    2.times { steps << 1 }
    wires.each(&:answer)
    assert_equal [0.0, 1.5], times.map { |time| time.round(6) }
  end

  # X-Request-Start => queue_time
  {
    "seconds" => [->(time) { "t=#{time - 2}" }, 2],
    "seconds without t" => [->(time) { (time - 2).to_s }, 2],
    "milliseconds" => [->(time) { "t=#{((time - 2) * 1_000).to_i}" }, 2],
    "microseconds" => [->(time) { "t=#{((time - 2) * 1_000_000).to_i}" }, 2],
    "nanoseconds" => [->(time) { ((time - 2) * 1_000_000_000).to_i.to_s }, 2],
    "the future" => [->(time) { "t=#{time + 100}" }, 0],
    "words" => [->(_time) { "yesterday" }, 0],
    "nothing" => [->(_time) { "" }, 0],
    "infinity" => [->(_time) { "t=Infinity" }, 0],
    "not a number" => [->(_time) { "nan" }, 0],
    "something small" => [->(_time) { "t=1" }, 0],
    "something negative" => [->(_time) { "-5" }, 0],
    "something long" => [->(_time) { "1" * 200 }, 0]
  }.each do |name, (value, seconds)|
    define_method(:"test_request_start_in_#{name.tr(" ", "_")}") do
      seen = nil
      serve { |env| (seen = env["neverblock.queue_time"]) && HELLO.call(env) }
      ask(get("/", "X-Request-Start: #{value.call(NeverBlock::Clock.wall)}"))
      assert_in_delta seconds, seen, 1e-5
    end
  end

  # ---- clients that leave ----

  def test_queued_requests_whose_client_has_left_are_dropped
    steps = serve_gated(max_in_flight: 1)
    first = connect << get("/wait")
    await_stats(in_flight: 1)
    gone = Array.new(3) { connect << get("/wait") }
    stays = connect << get("/")
    await_stats(queued: 4)
    gone.each_with_index { |wire, n| n.odd? ? wire.close : wire.reset }
    sleep 1 # the server checks queued requests for gone clients only after a while
    steps << 1
    assert_equal [200, 200], [first.answer.status, stays.answer.status]
    await_stats(dropped: 3, answered: 2, queued: 0)
  end

  def test_queued_requests_whose_client_has_left_where_that_cancels
    steps = serve_gated(max_in_flight: 1, cancel_on_disconnect: true)
    first = connect << get("/wait")
    await_stats(in_flight: 1)
    gone = Array.new(3) { connect << get("/wait") }
    await_stats(queued: 3)
    gone.each_with_index { |wire, n| n.odd? ? wire.close : wire.reset }
    await_stats(queued: 0, dropped: 3)
    steps << 1
    assert_equal 200, first.answer.status
  end

  def test_running_requests_whose_client_has_left_go_on
    steps = gate
    ended = gate
    serve { |env| steps.pop && (ended << 1) && HELLO.call(env) }
    wire = connect << get
    await_stats(in_flight: 1)
    wire.close
    steps << 1
    assert_equal 1, ended.pop
    await_stats(in_flight: 0, connections: 0)
  end

  def test_running_requests_whose_client_has_left_are_cancelled_where_that_is_asked_for
    log = gate
    serve(cancel_on_disconnect: true) do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/"
      begin
        sleep
      ensure
        sleep 1 # ensure blocks may wait
        log << :ensure
      end
    end
    wires = Array.new(3) { connect << get("/wait") }
    await_stats(in_flight: 3)
    wires.each_with_index { |wire, n| n.odd? ? wire.close : wire.reset }
    3.times { assert_equal :ensure, log.pop }
    await_stats(in_flight: 0, connections: 0, cut: 3, failed: 0)
    assert_equal 200, ask(get("/")).status
  end

  def test_streaming_answers_whose_client_has_left_are_cancelled_and_closed
    closed = gate
    body = Object.new
    body.define_singleton_method(:each) { |&block| block.call("a") || sleep }
    body.define_singleton_method(:close) { closed << 1 }
    serve(cancel_on_disconnect: true) { |_env| [200, {}, body] }
    wire = connect << get
    wire.read_head
    wire.read(6)
    wire.close
    assert_equal 1, closed.pop
    await_stats(in_flight: 0, streams: 0, connections: 0)
  end

  def test_pipelined_requests_do_not_look_like_a_client_that_leaves
    steps = serve_gated(cancel_on_disconnect: true)
    wire = connect << get("/wait")
    await_stats(in_flight: 1)
    wire << get("/next")
    steps << 1
    assert_equal %w[/wait /next], wire.answers(2).map(&:body)
  end
end
