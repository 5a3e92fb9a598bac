# frozen_string_literal: true

require "test_helper"
require "digest"
require "support/fronted"
require "support/served_in_time"

# Connections that change to another protocol through the proxy: only where the client has asked, and the upstream has
# agreed.
class ProxyUpgradeTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted
  include NeverBlockTest::ServedInTime

  ASK = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="].freeze
  AGREED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
  # Agrees, and sends back what comes, until the client has ended.
  ECHO = ->(peer) do
    peer.head and peer << AGREED
    loop { peer << peer.io.readpartial(65_536) }
  rescue EOFError
    nil
  end

  def open_tunnel(*lines)
    wire = connect << get("/chat", *lines, *ASK)
    head = wire.socket.readpartial(AGREED.bytesize + 200)
    assert_match(%r{\AHTTP/1.1 101 Switching Protocols\r\n}, head)
    assert_match(/^Connection: upgrade\r$/i, head)
    assert_match(/^upgrade: websocket\r$/i, head)
    assert_match(/^sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$/i, head)
    wire.socket
  end

  def test_an_echo
    front(ECHO)
    socket = open_tunnel
    assert_equal %w[upgrade websocket 13], sent_fields.values_at("connection", "upgrade", "sec-websocket-version")
    %w[one two].each do |text|
      socket << text
      assert_equal text, socket.readpartial(100)
    end
    assert_equal [1, 1], upstream_stats.values_at(:in_flight, :tunnels)
    socket.close_write # the end of one direction is passed on, and the other one goes on
    assert_equal "", socket.read
    wait_until("the tunnel's end") { upstream_stats[:in_flight].zero? }
  end

  def test_much_in_both_directions
    front(ECHO)
    socket = open_tunnel
    bytes = Random.bytes(5_000_000)
    writer = Thread.new { socket.write(bytes) && socket.close_write }
    assert_equal Digest::SHA256.hexdigest(bytes), Digest::SHA256.hexdigest(socket.read)
    writer.join
  end

  def test_bytes_that_come_with_the_handshake
    front(->(peer) { peer.head and peer << "#{AGREED}first" and peer << peer.take(6) })
    wire = connect << get("/chat", *ASK) + "second"
    text = +""
    text << wire.socket.readpartial(1_000) until text.end_with?("second")
    assert_operator text, :end_with?, "\r\n\r\nfirstsecond"
  end

  def test_an_upstream_that_does_not_agree
    front(KEEP)
    wire = connect << get("/chat", *ASK)
    assert_equal [200, "ok"], wire.answer.then { |answer| [answer.status, answer.body] }
    wire << get("/plain")
    assert_equal 200, wire.answer.status
    assert_equal "GET /plain HTTP/1.1", sent.lines(chomp: true).first
  end

  def test_an_upstream_that_agrees_to_something_else
    front(->(peer) { peer.head and peer << AGREED.sub("Upgrade: websocket", "Upgrade: other") })
    answer = ask(get("/chat", *ASK))
    assert_equal [502, "here; error=http_protocol_error"], [answer.status, answer["proxy-status"]]
  end

  # A client may not open a tunnel by a field that Connection does not name, by another method, or with a content; and
  # not to speak HTTP past the proxy.
  def test_requests_that_are_no_upgrade
    front(KEEP)
    [get("/", "Upgrade: websocket"), get("/", "Connection: upgrade"), request("POST", "/", "Connection: upgrade", "Upgrade: websocket", body: "x"),
      get("/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"), get("/", "Connection: upgrade", "Upgrade: unknown"),
      get("/", "Connection: upgrade", "Upgrade: websocket", version: "1.0")].each do |bytes|
      assert_equal 200, ask(bytes).status
      assert_equal [nil, nil], sent_fields.values_at("upgrade", "connection"), bytes
    end
  end

  def test_other_protocols_by_name
    front(->(peer) { peer.head and peer << "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nhi" }, upgrades: %w[chat])
    wire = connect << get("/", "Connection: upgrade", "Upgrade: websocket, CHAT")
    assert_operator wire.rest, :end_with?, "\r\n\r\nhi"
    assert_equal "chat", sent_fields["upgrade"]
  end

  def test_an_idle_tunnel_ends
    front(->(peer) { peer.head and peer << AGREED and peer.ended? }, tunnel_idle: 600)
    assert_after(600) { assert_equal "", open_tunnel.read }
    wait_until("the tunnel's end") { upstream_stats[:in_flight].zero? }
  end

  def test_a_client_that_leaves_ends_the_tunnel
    left = gate
    front(->(peer) { peer.head and peer << AGREED and left << peer.ended? })
    socket = open_tunnel
    socket.close
    assert left.pop(timeout: LIMIT)
  end

  def test_tunnels_beyond_the_limit_are_not_asked_for
    front(ECHO, max_tunnels: 1)
    socket = open_tunnel
    answer = ask(get("/chat", *ASK))
    assert_equal [503, "here; error=connection_limit_reached", "1"], [answer.status, answer["proxy-status"], answer["retry-after"]]
    assert_equal 1, scripted.requests.size
    socket.close
    wait_until("the tunnel's end") { upstream_stats[:in_flight].zero? }
    open_tunnel
  end

  def test_an_upgrade_that_comes_to_nothing_takes_no_place
    hold = gate
    front(->(peer) do
      peer.head
      peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
      hold.pop
    end, ECHO, max_tunnels: 1)
    wire = connect << get("/chat", *ASK)
    assert_equal 200, wire.read_head.status
    open_tunnel
    wire.close
    hold << 1
  end

  # The other requests have their turn while one tunnel passes on all that it can.
  def test_a_tunnel_without_a_pause
    front(->(peer) do
      next peer << OK unless peer.head.include?("Upgrade")
      peer << AGREED
      loop { peer << ("x" * 65_536) }
    end)
    socket = open_tunnel
    reader = Thread.new { loop { socket.readpartial(1 << 20) } }
    reader.report_on_exception = false
    20.times { assert_equal 200, ask(get).status }
    assert_predicate reader, :alive?
  ensure
    reader&.kill&.join
  end

  def test_a_stop_ends_tunnels
    front(ECHO)
    socket = open_tunnel
    refute assert_after(30..30.1) { server.stop(timeout: 30) }, "the tunnel was not cancelled"
    assert_equal "", socket.read
  end
end
