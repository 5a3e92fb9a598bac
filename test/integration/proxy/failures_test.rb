# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/at_call"
require "support/fronted"
require "support/served_in_time"
require "support/certificates"
require "support/peer"

# What becomes of a request whose upstream, or whose client, fails; and of attempts to have two of the three parties
# read a message in two ways.
class ProxyFailuresTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::AtCall
  include NeverBlockTest::Fronted
  include NeverBlockTest::ServedInTime

  Wire = NeverBlockTest::Wire

  def respond(bytes, wait: false)
    ->(peer) do
      next unless peer.request
      peer << bytes
      peer.ended? if wait
    end
  end

  def free_address = "http://127.0.0.1:#{NeverBlockTest::Peer.free_port}"

  def assert_failure(status, token, answer = ask(get))
    assert_equal [status, "here; error=#{token}"], [answer.status, answer["proxy-status"]]
    assert_operator answer.body.bytesize, :<, 100
    refute_includes answer.body, "127.0.0.1"
    assert_includes proxy_log, "neverblock proxy: #{token}: "
  end

  # ---- what a client gets ----

  def test_no_upstream
    front_of(free_address)
    assert_failure 502, "connection_refused"
    5.times { ask(get) }
    assert_operator proxy_log.lines.size, :<, 6, "a flood of lines"
  end

  def test_a_name_without_an_address
    front_of("http://nothing.invalid")
    assert_failure 502, "dns_error"
  end

  def test_an_upstream_that_closes
    front(->(peer) { peer.request })
    assert_failure 502, "connection_terminated"
    refute_includes proxy_log, "\e"
  end

  def test_an_upstream_that_is_silent
    front(->(peer) { peer.request and peer.ended? }, timeouts: {first_byte: 60})
    assert_after(60) { assert_failure 504, "http_response_timeout" }
  end

  def test_an_upstream_that_does_not_speak_http
    front(respond("SSH-2.0-x\r\n"))
    assert_failure 502, "http_protocol_error"
  end

  def test_an_upstream_without_a_free_connection
    waits = gate
    front(->(peer) { peer.request and waits.pop and peer << OK }, max_connections: 1, max_waiting: 0)
    first = connect << get
    wait_until("the first request") { scripted.requests.size == 1 }
    answer = ask(get)
    assert_failure 503, "connection_limit_reached", answer
    assert_equal "1", answer["retry-after"]
    waits << 1
    assert_equal 200, first.answer.status
  end

  def test_a_response_that_is_too_large
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n123456" }, max_response_body: 5)
    assert_failure 502, "http_response_body_size"
  end

  def test_a_response_in_chunks_that_becomes_too_large_is_cut_off
    go_on = gate
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n" and go_on.pop and peer << "3\r\n456\r\n0\r\n\r\n" }, max_response_body: 5)
    wire = connect << get
    assert_equal 200, wire.read_head.status
    go_on << 1
    assert_equal "3\r\n123\r\n", wire.rest
    assert_match(/max_response_body/, await_log.join)
  end

  def test_a_response_in_chunks_that_is_too_large_at_once
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n3\r\n456\r\n0\r\n\r\n" }, max_response_body: 5)
    assert_failure 502, "http_response_body_size"
  end

  def test_invalid_content_that_comes_with_the_head
    front(respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"))
    assert_failure 502, "http_protocol_error"
    assert_equal({failed: 1}, upstream_stats[:requests])
  end

  # TLS is read without a wait, so a server may not have sent the head when the end is found.
  def test_over_tls_an_end_too_early_is_no_error_of_the_server
    Dir.mktmpdir do |folder|
      NeverBlockTest::Certificates.write(folder)
      tls = OpenSSL::SSL::SSLContext.new
      tls.add_certificate(OpenSSL::X509::Certificate.new(File.read("#{folder}/server.crt")), OpenSSL::PKey.read(File.read("#{folder}/server.key")))
      ["", "part"].each do |part|
        upstream = NeverBlockTest::ScriptedUpstream.new(respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n#{part}"), tls:)
        front_of(upstream.url(host: "localhost"), ca_file: "#{folder}/ca.crt")
        wire = connect << get
        status = wire.read_head.status
        part.empty? ? assert_includes([200, 502], status) : assert_equal([200, part], [status, wire.rest])
        await_log unless status == 502
        proxy.close
      ensure
        upstream&.close
      end
    end
  end

  # ---- whose failure it is ----

  # Sends a request that is cut off to one of two upstreams, which are one server by two names. The first failure of its
  # own takes it out.
  # The look-up of a name takes real time.
  # @return [Hash] of the one that was asked
  def stats_after_a_cut(script, **options)
    @scripted = NeverBlockTest::ScriptedUpstream.new(script)
    front_of([scripted.url, scripted.url(host: "localhost")], max_failures: 1, **options)
    assert_raises(Wire::Truncated) { (connect << get).answer }
    await_log
    asked = -> { proxy.stats.values.find { |stats| stats[:requests].any? } }
    wait_until("the end") { asked.call&.fetch(:in_flight)&.zero? }
    asked.call
  end

  # A client that reads slowly makes the whole late.
  def test_the_deadline_of_the_whole_is_no_failure_of_an_upstream_that_has_begun
    stats = assert_after(30..31) { stats_after_a_cut(respond("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", wait: true), timeouts: {total: 30}) }
    assert_equal [{"2xx": 1, failed: 1}, 0], stats.values_at(:requests, :taken_out)
  end

  def test_a_stall_is_the_upstreams_failure
    stats = assert_after(60..61) { stats_after_a_cut(respond("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", wait: true), timeouts: {idle: 60}) }
    assert_equal 1, stats[:taken_out]
  end

  # No upstream is left alone for it.
  def test_a_host_without_descriptors_is_no_failure_of_an_upstream
    front_of(%w[http://127.0.0.1:9 http://127.0.0.1:10])
    wire = connect
    Socket.stub(:new, ->(*) { raise Errno::EMFILE }) { 3.times { assert_equal 502, (wire << get).answer.status } }
    assert_equal [[3, 0, false]] * 2, proxy.stats.values.map { |stats| [stats[:requests][:failed], stats[:connect_failures], stats[:out]] }
  end

  # An exception from outside arrives when a method ends: between the end of an exchange and the use of its response.
  def test_an_interruption_after_the_head_ends_the_exchange
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart" and peer.ended? })
    at_call(NeverBlock::Proxy::Backends, :well, -> { raise IOError, "from outside" }) { assert_equal 500, ask(get).status }
    await_log
    assert_equal [0, 0], [upstream_stats[:in_flight], upstream_stats[:connections][:held]]
  end

  def test_what_it_says_of_a_request_that_it_can_not_pass_on
    front(KEEP, wrap: ->(proxy) { ->(env) { proxy.call(env.merge("PATH_INFO" => "/a b\r\nX: y")) } })
    assert_failure 400, "http_request_error"
    assert_equal 1, proxy_log.lines.size
    assert_empty scripted.requests
  end

  # ---- an upstream that dies in the middle ----

  def test_a_content_with_a_length_that_ends_early_is_cut_off
    front(respond("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"))
    wire = connect << get
    assert_raises(Wire::Truncated) { wire.answer }
    line = await_log.join
    assert_includes line, "cut off"
    refute_includes line, ".rb:"
    assert_equal({"2xx": 1, failed: 1}, upstream_stats[:requests])
  end

  def test_chunks_that_end_early_are_cut_off
    front(respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n"))
    wire = connect << get
    assert_raises(Wire::Truncated) { wire.answer }
    await_log
  end

  # In HTTP/1.0 only a reset tells that something is missing.
  def test_to_a_client_of_http_1_0_it_is_a_reset
    front(respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n"))
    wire = connect << get(version: "1.0")
    assert_raises(Errno::ECONNRESET, Wire::Truncated) { wire.answer }
    await_log
  end

  def test_an_upstream_that_stalls_in_the_middle
    front(respond("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", wait: true), timeouts: {idle: 60})
    wire = connect << get
    assert_after(60) { assert_raises(Wire::Truncated) { wire.answer } }
    await_log
  end

  # ---- a client that leaves ----

  def test_a_client_that_leaves_before_the_response_ends_the_exchange
    left = gate
    front(->(peer) { peer.request and left << peer.ended? })
    wire = connect << get
    wait_until("the request") { scripted.requests.size == 1 }
    wire.close
    assert left.pop(timeout: LIMIT), "the upstream's connection is open"
  end

  def test_a_client_that_leaves_in_the_middle_of_the_response_ends_the_exchange
    left = gate
    front(->(peer) do
      next unless peer.request
      peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      loop { peer << "5\r\nhello\r\n" && sleep(1) }
    ensure
      left << true
    end)
    wire = connect << get
    assert_includes wire.socket.readpartial(10_000), "200 OK"
    wire.close
    assert left.pop(timeout: LIMIT), "the upstream goes on"
  end

  def test_a_client_that_leaves_in_the_middle_of_its_content
    left = gate
    front(->(peer) { peer.head and left << (peer.take(3) && peer.ended?) })
    wire = connect << request("POST", "/", "Content-Length: 6") << "one"
    wait_until("the request") { scripted.requests.size == 1 }
    wire.close
    assert left.pop(timeout: LIMIT)
    assert_equal 1, scripted.requests.size
    refute_includes proxy_log, "connection_terminated"
  end

  # ---- back-pressure ----

  # A response of a gigabyte for a client that does not read: the upstream is held back.
  def test_a_client_that_does_not_read_slows_the_upstream_down
    sent = 0
    front(->(peer) do
      next unless peer.request
      peer << "HTTP/1.1 200 OK\r\nContent-Length: #{1 << 30}\r\n\r\n"
      piece = "x" * (1 << 16)
      loop { sent += peer.io.write(piece) }
    end)
    wire = connect(receive: 1 << 16) << get
    clock.settle
    assert_includes 1...(64 << 20), sent
    wire.close
  end

  def test_an_upstream_that_does_not_read_slows_the_client_down
    hold = gate
    front(->(peer) { peer.head and hold.pop })
    wire = connect << request("POST", "/", "Content-Length: #{1 << 29}")
    sent = 0
    piece = "x" * (1 << 16)
    while (count = wire.socket.write_nonblock(piece, exception: false)) != :wait_writable || wire.socket.wait_writable(10)
      sent += count if Integer === count
      assert_operator sent, :<, 64 << 20
    end
    wire.close
  end
end
