# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "net/http"
require "stringio"
require "support/scripted_upstream"

# The proxy is a Rack app: it follows Rack's rules, and works in a server that is not ours, on its threads.
class ProxyRackTest < Minitest::Test
  include NeverBlockTest::Helpers

  AGREED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
  # Says what has come; agrees to an upgrade, and sends back what comes then.
  UPSTREAM = ->(peer) do
    while (text = peer.request)
      if text.match?(/^upgrade:/i)
        peer << AGREED
        loop { peer << peer.io.readpartial(1_000) }
      end
      peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n#{text.bytesize.to_s(16)}\r\n#{text}\r\n0\r\n\r\n"
    end
  rescue EOFError
    nil
  end

  def setup
    @upstream = NeverBlockTest::ScriptedUpstream.new(UPSTREAM)
    @proxy = NeverBlock::Proxy.new(@upstream.url, via: "here")
  end

  def teardown
    wait_until("no request in flight") { @proxy.stats.each_value.all? { |stats| stats[:in_flight].zero? } }
    @proxy.close
    @upstream.close
  end

  def test_it_follows_the_rules_of_rack
    skip "rack is not among the gems here" unless Gem.loaded_specs.key?("rack")
    require "rack"
    require "rack/lint"
    app = Rack::MockRequest.new(Rack::Lint.new(@proxy))
    answer = app.get("http://example.org/a?b", "HTTP_HOST" => "example.org", "HTTP_ACCEPT" => "text/html")
    assert_equal [200, %w[a=1 b=2]], [answer.status, answer.headers["set-cookie"]]
    assert_match(%r{\AGET /a\?b HTTP/1.1\r\nHost: example.org\r\naccept: text/html\r\n}, answer.body)
    assert_operator app.post("http://example.org/", input: "abc").body, :end_with?, "Content-Length: 3\r\n\r\nabc"
    assert_equal [200, ""], app.head("http://example.org/").then { |one| [one.status, one.body] }
    assert_equal 405, app.request("TRACE", "http://example.org/", "rack.errors" => StringIO.new).status
  end

  def test_it_works_in_puma
    skip "puma is not among the gems here" unless Gem.loaded_specs.key?("puma")
    silently { %w[puma puma/server].each { |file| require file } }
    server = Puma::Server.new(@proxy, nil, {min_threads: 1, max_threads: 4})
    port = server.add_tcp_listener("127.0.0.1", 0).addr[1]
    server.run
    assert_match(%r{\AGET /a%20b\?c HTTP/1.1\r\n}, Net::HTTP.get("127.0.0.1", "/a%20b?c", port))
    sent = Net::HTTP.start("127.0.0.1", port) { |http| http.send_request("POST", "/", "hello", "Content-Type" => "text/plain").body }
    assert_operator sent, :end_with?, "Content-Length: 5\r\n\r\nhello"
    socket = TCPSocket.new("127.0.0.1", port)
    socket << "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert_match(%r{\AHTTP/1.1 101 }, socket.readpartial(1_000))
    socket << "hello"
    assert_equal "hello", socket.readpartial(1_000)
    socket.close_write
    assert_equal "", socket.read
  ensure
    socket&.close
    server&.stop(true)
  end

  private

  def silently
    before, $VERBOSE = $VERBOSE, nil
    yield
  ensure
    $VERBOSE = before
  end
end
