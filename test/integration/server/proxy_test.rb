# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"
require "ipaddr"
require "json"

# Connections that begin with a PROXY header; the headers themselves are in test/unit/http/protocol/proxy_test.rb.
class ServerProxyTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  LINE = "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n"
  LINE_6 = "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n"
  SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b
  BLOCK = SIGNATURE + [0x21, 0x11, 15].pack("CCn") + IPAddr.new("192.0.2.9").hton + "\0" * 8 + "\x04\0\0"
  HEALTH_CHECK = SIGNATURE + [0x20, 0, 0].pack("CCn")
  WHO = ->(env) { [200, {}, ["#{env["REMOTE_ADDR"]} #{env["PATH_INFO"]}"]] }

  def test_the_client_of_a_request
    serve_behind_a_balancer
    assert_equal "192.0.2.1 /", ask(LINE + get).body
    assert_equal "2001:db8::1 /", ask(LINE_6 + get).body
    assert_equal "192.0.2.9 /", ask(BLOCK + get).body
    assert_equal "127.0.0.1 /", ask("PROXY UNKNOWN\r\n" + get).body
    assert_equal "127.0.0.1 /", ask(HEALTH_CHECK + get).body
    assert_equal 0, server.stats[:proxy_errors]
  end

  def test_over_a_unix_socket
    serve_behind_a_balancer(unix: true)
    assert_equal "192.0.2.1 /", ask(LINE + get).body
    assert_equal "127.0.0.1 /", ask(HEALTH_CHECK + get).body
    assert_equal "192.0.2.9 /", ask(BLOCK + get).body
  end

  def test_nothing_but_the_address_changes
    serve_behind_a_balancer { |env| [200, {}, [env.to_a.select { |_, value| String === value }.sort.to_json]] }
    behind = JSON.parse(ask(LINE + get).body).to_h
    serve { |env| [200, {}, [env.to_a.select { |_, value| String === value }.sort.to_json]] }
    assert_equal JSON.parse(ask(get).body).to_h.merge("REMOTE_ADDR" => "192.0.2.1"), behind
  end

  def test_one_header_for_all_requests_of_a_connection
    serve_behind_a_balancer
    wire = connect << LINE + get("/1") + get("/2")
    assert_equal ["192.0.2.1 /1", "192.0.2.1 /2"], wire.answers(2).map(&:body)
    assert_equal "192.0.2.1 /3", (wire << get("/3")).answer.body
    wire << LINE + get # is not a request
    assert_equal 400, wire.answer.status
    assert_predicate wire, :ended?
    assert_match(/bad_request: a request from 192\.0\.2\.1 is refused with 400: /, await_refused(bad_request: 1).first)
  end

  def test_byte_by_byte
    serve_behind_a_balancer(unix: true)
    {LINE => "192.0.2.1", BLOCK => "192.0.2.9", HEALTH_CHECK => "127.0.0.1"}.each do |header, client|
      wire = connect
      wire.send_apart(*(header.b + get("/split")).chars)
      assert_equal "#{client} /split", wire.answer.body
    end
  end

  def test_a_request_that_comes_after_the_header
    serve_behind_a_balancer
    wire = connect << LINE
    await_stats(connections: 1)
    assert_equal "192.0.2.1 /late", (wire << get("/late")).answer.body
  end

  def test_a_body
    serve_behind_a_balancer { |env| [200, {}, [env["REMOTE_ADDR"], env["rack.input"].read]] }
    assert_equal "192.0.2.1body", ask(LINE + post("/", "body")).body
    assert_equal "192.0.2.9in chunks", ask(BLOCK + post_chunks("/", ["in ", "chunks"])).body
    assert_equal "192.0.2.1#{"x" * 100_000}", ask(LINE + post("/", "x" * 100_000)).body
  end

  def test_streams_and_hijacked_connections
    serve_behind_a_balancer do |env|
      next [200, {}, proc { |stream| stream << env["REMOTE_ADDR"] }] if env["PATH_INFO"] == "/stream"
      env["rack.hijack"].call.then { |io| io.write("#{io.class} #{env["REMOTE_ADDR"]} #{io.gets}") && io.close }
    end
    assert_equal "192.0.2.1", ask(LINE + get("/stream")).body
    assert_equal "TCPSocket 192.0.2.9 line\n", (connect << BLOCK + get("/hijack") + "line\n").rest
  end

  def test_the_access_log
    lines = StringIO.new
    serve_behind_a_balancer(access_log: :common, access_log_to: lines)
    ask(LINE + get("/logged"))
    assert server.stop
    assert_match(/\A192\.0\.2\.1 - - .*"GET \/logged HTTP\/1\.1" 200/, lines.string)
  end

  # ---- connections without a header ----

  { # refused as soon as it can't become a header, without waiting for the end
    "a request" => "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "its first byte" => "G", "TLS" => "\x16\x03\x01", "an empty line" => "\r\nGET / HTTP/1.1\r\n",
    "a line that is none" => "PROXY TCP4 nonsense\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "a line without an end" => "PROXY TCP4 #{"1" * 100}",
    "a block of another version" => "#{SIGNATURE}\x31\x11\0\0"
  }.each do |name, bytes|
    define_method(:"test_#{name.tr(" ", "_")}_is_no_header") do
      [false, true].each do |unix|
        serve_behind_a_balancer(unix:) { flunk "it was asked" }
        assert_closed(connect << bytes)
        wait_until("the counter") { server.stats[:proxy_errors] == 1 }
        assert_match(/warn: proxy: a connection from 127\.0\.0\.1 is closed: it.* \(proxy=required\)$/, await_log.first)
        server.stop
      end
    end
  end

  def test_a_flood_of_them_is_told_once
    serve_behind_a_balancer
    20.times { assert_closed(connect << get) }
    wait_until("the counter") { server.stats[:proxy_errors] == 20 }
    assert_operator log.size, :<, 20
    assert_equal "192.0.2.1 /", ask(LINE + get).body
    log
  end

  def test_where_none_is_asked_for_it_is_no_request
    serve
    [LINE, BLOCK].each { |header| assert_equal 400, ask(header + get).status }
    await_refused(bad_request: 2)
    assert_equal 0, server.stats[:proxy_errors]
  end

  # ---- timeouts ----

  def test_a_header_that_does_not_end
    wire = wait_behind_a_balancer(LINE.byteslice(0, 20))
    assert_after(10) { assert_closed(wire) }
    assert_equal [1, 0], server.stats.values_at(:timeouts, :proxy_errors)
  end

  def test_a_header_alone
    wire = wait_behind_a_balancer(LINE)
    assert_after(10) { assert_predicate wire, :ended? }
    assert_equal [0, 0], server.stats.values_at(:timeouts, :proxy_errors)
  end

  def test_a_head_behind_it_that_does_not_end
    wire = wait_behind_a_balancer(LINE + "GET / HTT")
    assert_equal 408, assert_after(10) { wire.answer.status }
    await_refused(head_timeout: 1)
  end

  def test_a_balancer_that_leaves
    serve_behind_a_balancer
    (connect << LINE.byteslice(0, 20)).close_write
    (connect << LINE).close_write
    connect.close_write
    wait_until("the end of all") { server.stats.values_at(:accepted, :connections) == [3, 0] }
  end

  def test_stopping_does_not_wait_for_silent_clients
    serve_behind_a_balancer
    wires = [connect, connect << LINE, connect << LINE.byteslice(0, 9), connect << BLOCK.byteslice(0, 17)]
    await_stats(connections: 4)
    assert assert_after(0..5) { server.stop } # head_timeout is 15
    wires.each { |wire| assert wire.reset? || wire.ended? }
  end

  slow "it collects garbage at each allocation"
  def test_a_collection_at_every_allocation
    serve_behind_a_balancer(head_timeout: 60)
    GC.stress = 1
    assert_equal "192.0.2.1 /a", ask(LINE + get("/a")).body
    assert_equal "2001:db8::1 /b", ask(LINE_6 + get("/b")).body
    wire = connect << BLOCK.byteslice(0, 20)
    wire << BLOCK.byteslice(20..) + get("/c")
    assert_equal "192.0.2.9 /c", wire.answer.body
    assert_closed(connect << get)
  ensure
    GC.stress = false
    log
  end

  private

  def serve_behind_a_balancer(unix: false, **directives, &app)
    bind = unix ? "unix://#{@folder ||= Dir.mktmpdir("nb")}/s" : "tcp://127.0.0.1:0"
    serve(app || WHO, bind: "#{bind}?proxy=required", **directives)
  end

  # @return [Wire]
  def wait_behind_a_balancer(bytes)
    serve_behind_a_balancer(head_timeout: 10)
    connect << bytes
  end

  # Closed without a response, and perhaps with a reset, since there are unread bytes.
  def assert_closed(wire)
    assert wire.ended?
  rescue Errno::ECONNRESET
    pass
  end
end
