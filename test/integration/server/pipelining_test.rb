# frozen_string_literal: true

# engines: every - io_uring receives before the server asks

require "test_helper"
require "support/served_in_time"

# Requests that arrive before the previous response, and requests in pieces.
class ServerPipeliningTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # Responds with the request.
  ECHO = lambda do |env|
    [200, {"content-type" => "text/plain"}, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{env["rack.input"].read}"]]
  end

  def test_a_thousand_in_one_write
    serve(ECHO)
    wire = connect << Array.new(1_000) { |n| get("/#{n}") }.join
    assert_equal Array.new(1_000) { |n| "GET /#{n} " }, wire.answers(1_000).map(&:body)
    assert_equal 1_000, server.stats[:answered]
  end

  def test_a_thousand_with_all_kinds_of_bodies_in_one_write
    serve(ECHO)
    requests = Array.new(1_000) do |n|
      text = n.to_s * (n % 7)
      case n % 4
      when 0 then [get("/#{n}"), "GET /#{n} "]
      when 1 then [post("/#{n}", text), "POST /#{n} #{text}"]
      when 2 then [post_chunks("/#{n}", [text, "x"].reject(&:empty?)), "POST /#{n} #{text}x"]
      else [request("PUT", "/#{n}", "Content-Length: 0"), "PUT /#{n} "]
      end
    end
    wire = connect << requests.map(&:first).join
    assert_equal requests.map(&:last), wire.answers(1_000).map(&:body)
  end

  def test_one_at_a_time_and_in_order
    running = most = 0
    serve do |env|
      most = [most, running += 1].max
      sleep (5 - env["PATH_INFO"][1..].to_i).abs
      [200, {}, [env["PATH_INFO"]]]
    ensure
      running -= 1
    end
    wire = connect << Array.new(10) { |n| get("/#{n}") }.join
    assert_equal Array.new(10) { |n| "/#{n}" }, wire.answers(10).map(&:body)
    assert_equal 1, most
  end

  def test_a_long_pipeline_leaves_others_their_turns
    order = []
    asked = gate
    serve(max_in_flight: 1) do |env|
      order << env["PATH_INFO"]
      asked.pop if order.size == 1
      HELLO.call(env)
    end
    long, short = connect, connect
    long << get("/long") * 1_000
    wait_until("the first of them") { order.size == 1 }
    short << get("/short")
    asked << true
    short.answer
    long.answers(1_000)
    assert_operator order.index("/short"), :<, 1_000
  end

  def test_after_a_failure_the_next_is_run
    serve { |env| (env["PATH_INFO"] == "/bad") ? raise("bad") : ECHO.call(env) }
    wire = connect << get("/1") << get("/bad") << get("/2")
    assert_equal [200, 500, 200], wire.answers(3).map(&:status)
    assert_match(%r{GET /bad HTTP/1\.1: RuntimeError: bad}, log.join)
  end

  def test_after_heads_without_bodies
    serve(ECHO)
    wire = connect << request("HEAD", "/1") << get("/2") << request("HEAD", "/3") << get("/4")
    bodies = [true, false, true, false].map { |head| wire.answer(head:).body }
    assert_equal ["", "GET /2 ", "", "GET /4 "], bodies
  end

  def test_behind_a_body_that_the_app_did_not_read
    serve { |env| [200, {}, [env["PATH_INFO"]]] }
    wire = connect << post("/1", get("/hidden")) << get("/2")
    assert_equal %w[/1 /2], wire.answers(2).map(&:body)
    assert_equal 2, server.stats[:requests]
  end

  def test_answers_larger_than_what_the_kernel_takes
    big = "x" * 3_000_000
    serve { |env| [200, {}, [env["PATH_INFO"], big]] }
    wire = connect << get("/1") << get("/2") << get("/3")
    wire.answers(3).each_with_index { |answer, n| assert_equal [3_000_002, "/#{n + 1}"], [answer.body.bytesize, answer.body[0, 2]] }
  end

  def test_a_client_that_leaves_in_the_middle
    serve { |env| [200, {}, [env["PATH_INFO"], "x" * 1_000_000]] }
    wire = connect << get("/1") * 100
    wire.answer
    wire.reset
    await_stats(connections: 0, in_flight: 0)
    assert_operator server.stats[:requests], :<, 100
    assert_equal 200, ask(get("/")).status
  end

  # ---- in pieces ----

  PIECEMEAL = {
    "a request" => [["GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n"], ["GET /a "]],
    "a body" => [["POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world"], ["POST /a hello world"]],
    "chunks" => [["POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n006\r\n world\r\n0\r\nA: b\r\n\r\n"], ["POST /a hello world"]],
    "an empty line in front" => [["\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n"], ["GET /a "]],
    "two requests" => [["GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"], ["GET /a ", "GET /b "]],
    "a body and a request" => [["POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"], ["POST /a abc", "GET /b "]],
    "chunks and a request" => [["POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"], ["POST /a abc", "GET /b "]]
  }.freeze

  PIECEMEAL.each do |name, (requests, bodies)|
    bytes = requests.join
    slug = name.tr(" ", "_")

    define_method(:"test_cut_at_every_place_#{slug}") do
      serve(ECHO, unix: true)
      (1...bytes.bytesize).each do |cut|
        wire = connect.send_apart(bytes.byteslice(0, cut), bytes.byteslice(cut..))
        assert_equal bodies, wire.answers(bodies.size).map(&:body), "cut at #{cut}"
        assert_equal bodies, (wire << bytes).answers(bodies.size).map(&:body), "the next, after a cut at #{cut}"
        wire.close
      end
    end

    define_method(:"test_byte_by_byte_#{slug}") do
      serve(ECHO, unix: true)
      wire = connect
      2.times { assert_equal bodies, wire.send_apart(*bytes.each_char).answers(bodies.size).map(&:body) }
    end

    define_method(:"test_streamed_to_the_app_byte_by_byte_#{slug}") do
      serve(ECHO, unix: true, request_body: :stream)
      wire = connect
      2.times { assert_equal bodies, wire.send_apart(*bytes.each_char).answers(bodies.size).map(&:body) }
    end
  end

  def test_many_connections_each_in_pieces_of_its_own
    serve(ECHO)
    random = Random.new(1)
    plans = Array.new(40) do
      requests = Array.new(5) { |n| [get("/#{n}"), post("/#{n}", "x" * random.rand(3_000)), post_chunks("/#{n}", ["y" * 500, "z"])].sample(random:) }
      bytes = requests.join
      cuts = [0, *Array.new(8) { random.rand(bytes.bytesize) }.sort, bytes.bytesize].uniq
      [connect, cuts.each_cons(2).map { |from, to| bytes.byteslice(from...to) }]
    end
    until plans.all? { |_, pieces| pieces.empty? }
      wire, pieces = plans.reject { |_, left| left.empty? }.sample(random:)
      wire << pieces.shift
    end
    plans.each do |one, _|
      assert_equal %w[/0 /1 /2 /3 /4], one.answers(5).map { |answer| answer.body.split[1] }
    end
  end
end
