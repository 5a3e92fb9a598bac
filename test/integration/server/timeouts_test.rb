# frozen_string_literal: true

# engines: every - a deadline ends a receive or send of io_uring, or a watch

require "test_helper"
require "support/served_in_time"
require "tempfile"

# Each deadline by itself: head, body, rate, idle, write stall, linger, the whole request; and the log of slow requests.
class ServerTimeoutsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # ---- head ----

  {"a part of the request line" => "GE", "a part of the fields" => "GET / HTTP/1.1\r\nHost: a\r\n", "an empty line" => "\r\n"}.each do |name, bytes|
    define_method(:"test_#{name.tr(" ", "_")}_and_no_more") do
      serve(head_timeout: 10, linger_timeout: 5)
      wire = connect << bytes
      answer = assert_after(10) { wire.answer }
      assert_equal [408, "close", "the request's head did not come in time\n"], [answer.status, answer["connection"], answer.body]
      assert_predicate wire, :ended?
      assert_after(5) { await_stats(timeouts: 1, connections: 0, requests: 0) }
      await_refused(head_timeout: 1)
    end
  end

  def test_a_head_that_comes_byte_by_byte_has_no_more_time
    serve(head_timeout: 10)
    bytes = get("/#{"a" * 1_000}").each_char
    wire = connect << bytes.next
    assert_after(10) { wire << bytes.next until wire.socket.wait_readable(0.3) }
    assert_equal 408, wire.answer.status
    await_refused(head_timeout: 1)
  end

  def test_a_new_connection_that_says_nothing
    serve(head_timeout: 10, idle_timeout: 60)
    wire = connect
    assert_after(10) { assert_predicate wire, :ended? }
    await_stats(connections: 0, timeouts: 0)
  end

  def test_the_second_head_too
    serve(head_timeout: 10)
    wire = connect << get
    assert_equal 200, wire.answer.status
    sleep 60
    wire << "G"
    assert_equal 408, assert_after(10) { wire.answer.status }
    await_refused(head_timeout: 1)
  end

  def test_a_head_behind_a_slow_request_has_its_own_time
    serve(head_timeout: 10) { |env| sleep(12) && HELLO.call(env) }
    wire = connect << get << "GET / HTTP/1.1\r\n"
    assert_equal 200, wire.answer.status
    sleep 9
    wire << "Host: a\r\n\r\n"
    assert_equal 200, wire.answer.status
  end

  # ---- idle ----

  def test_an_idle_connection_is_closed_without_a_word
    serve(idle_timeout: 75)
    wire = connect << get
    assert_equal 200, wire.answer.status
    assert_after(75) { assert_predicate wire, :ended? }
    await_stats(connections: 0, timeouts: 0)
  end

  def test_a_connection_that_asks_in_time_stays
    serve(idle_timeout: 75)
    wire = connect
    3.times do
      assert_equal 200, (wire << get).answer.status
      sleep 74
    end
    assert_predicate wire, :quiet?
    assert_equal 1, server.stats[:accepted]
  end

  def test_a_running_request_is_not_idle
    serve(idle_timeout: 10, head_timeout: 10, body_timeout: 10, write_timeout: 10) { |env| sleep(30) && HELLO.call(env) }
    wire = connect << get + get
    assert_equal [200, 200], assert_after(60) { wire.answers(2) }.map(&:status)
  end

  # ---- bodies ----

  {"of a length" => "Content-Length: 10", "in chunks" => "Transfer-Encoding: chunked"}.each do |name, line|
    define_method(:"test_a_body_#{name.tr(" ", "_")}_that_pauses") do
      serve(body_timeout: 20, linger_timeout: 5)
      wire = connect << request("POST", "/", line) << "5\r\n"
      answer = assert_after(20) { wire.answer }
      assert_equal [408, "close", "the request's body did not come in time\n"], [answer.status, answer["connection"], answer.body]
      assert_predicate wire, :ended?
      assert_after(5) { await_stats(timeouts: 1, connections: 0, body_bytes: 0) }
      await_refused(body_timeout: 1)
    end
  end

  def test_a_streamed_body_that_pauses
    errors = gate
    serve(body_timeout: 20, request_body: :stream) do |env|
      env["rack.input"].read
    rescue => error
      errors << error.class
      raise
    end
    wire = connect << request("POST", "/", "Content-Length: 10") << "abc" << ""
    assert_equal [408, "close"], assert_after(20) { wire.answer }.then { |answer| [answer.status, answer["connection"]] }
    assert_predicate wire, :ended?
    assert_equal NeverBlock::TimeoutError, errors.pop
    await_stats(timeouts: 1, failed: 0, in_flight: 0)
    await_refused(body_timeout: 1)
  end

  def test_a_body_that_pauses_and_goes_on
    serve(body_timeout: 20, min_body_rate: 0) { |env| [200, {}, [env["rack.input"].read]] }
    wire = connect << request("POST", "/", "Content-Length: 3")
    3.times { sleep(19) && wire << "x" }
    assert_equal "xxx", wire.answer.body
  end

  def test_a_body_that_comes_too_slowly
    serve(min_body_rate: 100, min_body_rate_after: 5)
    wire = connect << request("POST", "/", "Content-Length: 100000")
    assert_after(5) { wire << "x" * 50 until wire.socket.wait_readable(1) }
    assert_equal [408, "the body comes too slowly\n"], wire.answer.then { |answer| [answer.status, answer.body] }
    assert_predicate wire, :ended?
    await_stats(timeouts: 1)
    await_refused(min_body_rate: 1)
  end

  def test_a_body_that_comes_fast_enough
    serve(min_body_rate: 100, min_body_rate_after: 5)
    wire = connect << request("POST", "/", "Content-Length: 2020")
    20.times { (wire << "x" * 101) && sleep(1) }
    assert_equal 200, wire.answer.status
  end

  # ---- answers ----

  BODIES = {
    "an Array" => ["x" * 20_000_000],
    "each" => Enumerator.new { |yielder| loop { yielder << "x" * 10_000 } },
    "a stream" => ->(stream) { loop { stream << "x" * 10_000 } }
  }.freeze

  BODIES.each do |name, body|
    define_method(:"test_a_client_that_takes_nothing_of_#{name.tr(" ", "_")}") do
      serve(write_timeout: 30) { |_env| [200, {}, body] }
      wire = connect(receive: 4_096) << get
      assert_after(30) { await_stats(timeouts: 1, connections: 0, in_flight: 0, streams: 0, failed: 0) }
      assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }
    end
  end

  def test_a_client_that_takes_nothing_of_a_file
    Tempfile.create("big") do |file|
      File.truncate(file.path, 30_000_000)
      body = Object.new
      body.define_singleton_method(:to_path) { file.path }
      serve(write_timeout: 30) { |_env| [200, {}, body] }
      wire = connect(receive: 4_096) << get
      assert_after(30) { await_stats(timeouts: 1, connections: 0, in_flight: 0, failed: 0) }
      assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }
    end
  end

  def test_a_client_that_takes_its_time_but_takes
    size = 12_000_000
    serve(write_timeout: 30, min_answer_rate: 0) { |_env| [200, {"content-length" => size.to_s}, ["x" * size]] }
    wire = connect(receive: 65_536) << get
    wire.read_head
    12.times { sleep(9) && wire.read(size / 12) }
    assert_equal 0, server.stats[:timeouts]
  end

  # An occasional byte is progress for write_timeout.
  {**BODIES, "pipelined answers" => ["x" * 20_000], "small pipelined answers" => ["x" * 1_900]}.each do |name, body|
    requests = {"pipelined answers" => 1_000, "small pipelined answers" => 4_000}.fetch(name, 1)

    define_method(:"test_a_client_that_takes_#{name.tr(" ", "_")}_too_slowly") do
      serve(write_timeout: 60, min_answer_rate: 100_000, min_answer_rate_after: 30) { |_env| [200, {}, body] }
      wire = connect(receive: 4_096) << get * requests
      sleep(0.5) && wire.socket.read_nonblock(1_000, exception: false) until server.stats[:timeouts] == 1
      assert_includes 30..32, clock.elapsed
      await_stats(timeouts: 1, connections: 0, in_flight: 0, streams: 0, failed: 0)
    end
  end

  def test_only_the_time_counts_in_which_the_client_is_waited_for
    steps = gate
    serve(min_answer_rate: 1_000_000, min_answer_rate_after: 5) do |_env|
      [200, {}, ->(stream) { 3.times { stream.write("x") && stream.flush && steps.pop } }]
    end
    wire = connect << get
    3.times { sleep(60) && steps << 1 }
    assert_equal "xxx", wire.answer.body
    assert_equal 0, server.stats[:timeouts]
  end

  # ---- after the last answer ----

  def test_a_client_that_neither_closes_nor_stops_sending
    serve(linger_timeout: 5)
    wire = connect << "bad\r\n\r\n"
    assert_equal 400, wire.answer.status
    assert_predicate wire, :ended?
    assert_after(5) { (wire << "more") && sleep(1) until server.stats[:connections].zero? }
    await_refused(bad_request: 1)
  end

  # ---- the whole request: checked once a second ----

  def test_a_request_that_runs_too_long
    ends = gate
    serve(request_timeout: 30) do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/"
      begin
        sleep
      ensure
        sleep 1
        ends << 1
      end
    end
    wire = connect << get("/long") << get("/")
    answers = assert_after(32) { wire.answers(2) } # the look after 30 s is the last one within the limit
    assert_equal [[503, "1"], [200, nil]], answers.map { |answer| [answer.status, answer["retry-after"]] }
    assert_equal 1, ends.size
    assert_match(%r{slow: GET /long HTTP/1\.1 runs for 31 s and is cancelled \(request_timeout\): .*sleep}, await_log.join)
    assert_equal({timeouts: 1, failed: 0}, server.stats.slice(:timeouts, :failed))
  end

  def test_a_slow_request_is_told_again_when_it_is_cancelled
    serve(slow_request: 5, request_timeout: 30) { |_env| sleep }
    assert_equal 503, ask(get("/long")).status
    assert_match(%r{slow: GET /long HTTP/1\.1 runs for 6 s: .*\n.*runs for 31 s and is cancelled \(request_timeout\): }, await_log(2).join("\n"))
  end

  def test_a_stream_may_run_as_long_as_it_likes
    serve(request_timeout: 30, slow_request: 5) { |_env| [200, {}, ->(stream) { 12.times { (stream << "a") && sleep(60) } }] }
    assert_equal "a" * 12, assert_after(12 * 60) { ask(get) }.body
  end

  def test_a_slow_request_is_told_once_with_what_it_waits_for
    steps = gate
    serve(slow_request: 5) { |env| steps.pop && HELLO.call(env) }
    wire = connect << get("/slow?a=b")
    line = await_log.join
    assert_match(%r{slow: GET /slow\?a=b HTTP/1\.1 runs for 6 s: #<NeverBlock::Task "/slow" waiting for #<Thread::Queue>.* \| .*server/timeouts_test\.rb:\d+:in }, line)
    sleep 60
    steps << 1
    assert_equal 200, wire.answer.status
    assert_empty log
  end
end
