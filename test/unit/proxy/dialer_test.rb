# frozen_string_literal: true

require "test_helper"
require "support/certificates"
require "support/proxied"
require "tmpdir"

# Connections: names, addresses, unix sockets and TLS.
class ProxyDialerTest < Minitest::Test
  include NeverBlockTest::Proxied

  def setup
    @folder = Dir.mktmpdir("nb")
    super
  end

  def teardown
    super
    FileUtils.rm_rf(@folder)
  end

  # @return [OpenSSL::SSL::SSLContext] of a server with a certificate for these names
  def certified(names = "DNS:localhost", folder: @folder)
    NeverBlockTest::Certificates.write(folder, names:)
    OpenSSL::SSL::SSLContext.new.tap do |context|
      context.cert = OpenSSL::X509::Certificate.new(File.read("#{folder}/server.crt"))
      context.key = OpenSSL::PKey.read(File.read("#{folder}/server.key"))
      yield context if block_given?
    end
  end

  def test_a_port_where_nothing_listens
    server = TCPServer.new("127.0.0.1", 0)
    url = "http://127.0.0.1:#{server.addr[1]}"
    server.close
    play(KEEP, url:)
    error = assert_held_none_after(Proxy::ConnectError) { ask }
    assert_instance_of Errno::ECONNREFUSED, error.cause
    assert_equal [pool.upstream, :connect], [error.upstream, error.phase]
    assert_includes error.message, url
  end

  def test_a_name_that_does_not_exist
    play(KEEP, url: "http://does-not-exist.invalid:80")
    assert_kind_of SocketError, assert_held_none_after(Proxy::ConnectError) { ask }.cause
  end

  def test_a_name
    play(KEEP, host: "localhost")
    @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new(scripted.url(host: "localhost")))
    assert_equal "ok", content
    assert_includes scripted.requests.last, "Host: localhost:#{scripted.port}\r\n"
  end

  # Puts these addresses in the place of the name server's, one list for each look-up.
  # @return [Proc] how often it was asked
  def resolve(*lists)
    asked = 0
    pool.define_singleton_method(:dial) do |deadlines, _preface|
      dialer = Proxy::Dialer.new(upstream, deadlines)
      dialer.define_singleton_method(:look_up) { (lists[(asked += 1) - 1] || lists.last).dup }
      dialer.call
    end
    -> { asked }
  end

  def test_addresses_are_tried_one_after_another_and_the_name_is_asked_for_each_connection
    play(KEEP, url: "http://app.internal:1")
    dead = TCPServer.new("127.0.0.1", 0).then { |server| server.local_address.tap { server.close } }
    good = Addrinfo.tcp("127.0.0.1", scripted.port)
    asked = resolve([dead, good], [good])
    first, second = ask, ask
    assert_equal 2, asked.call
    [first, second].each { |response| content(response) }
    content
    assert_equal 2, asked.call
    pool.close
    @pool = Proxy::ConnectionPool.new(pool.upstream)
    asked = resolve([dead, dead], [])
    2.times { assert_raises(Proxy::ConnectError) { ask } }
    assert_equal 2, asked.call
  end

  slow "waits for a second"
  def test_an_address_that_is_silent_takes_only_its_share_of_the_time
    server = Socket.new(:INET, :STREAM)
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(0)
    sockets = Array.new(8) { Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(server.local_address, exception: false) } }
    play(KEEP, url: "http://app.internal:1", timeouts: {connect: 2})
    resolve([server.local_address, Addrinfo.tcp("127.0.0.1", scripted.port)])
    assert_equal "ok", content
  ensure
    [server, *sockets].compact.each(&:close)
  end

  def test_a_unix_socket
    play(KEEP, path: "#{@folder}/s")
    2.times { assert_equal "ok", content }
    assert_equal 1, scripted.connections
    assert_includes scripted.requests.last, "Host: localhost\r\n"
  end

  def test_a_unix_socket_that_is_not_there
    play(KEEP, url: "unix:#{@folder}/none")
    assert_instance_of Errno::ENOENT, assert_held_none_after(Proxy::ConnectError) { ask }.cause
  end

  def test_a_unix_socket_whose_queue_is_full
    server = Socket.new(:UNIX, :STREAM)
    server.bind(Addrinfo.unix("#{@folder}/full"))
    server.listen(0)
    sockets = Array.new(8) do
      Socket.new(:UNIX, :STREAM).tap { |socket| socket.connect_nonblock(server.local_address, exception: false) }
    rescue Errno::EAGAIN
      nil
    end
    play(KEEP, url: "unix:#{@folder}/full", timeouts: {connect: 0.05})
    assert_held_none_after(Proxy::ConnectTimeout) { ask }
  ensure
    [server, *sockets].compact.each(&:close)
  end

  # ---- TLS ----
  def play_tls(context = certified, name: "localhost", ca: "#{@folder}/ca.crt", **)
    @scripted = NeverBlockTest::ScriptedUpstream.new(KEEP, tls: context)
    @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new(scripted.url(host: name), ca_file: ca, **))
  end

  def test_tls_with_an_authority_of_ones_own
    long = "x" * 1_000_000
    servers = []
    play_tls(certified { |context| context.servername_cb = ->((_, name)) { servers << name and nil } })
    3.times { assert_equal "ok", content }
    content(ask("PUT", "/", body: long))
    assert_equal [1, ["localhost"]], [scripted.connections, servers]
    assert_operator scripted.requests.last.bytesize, :>, 1_000_000
  end

  def test_tls_with_a_certificate_for_an_address
    play_tls(certified("IP:127.0.0.1"), name: "127.0.0.1")
    assert_equal "ok", content
  end

  def test_tls_with_another_name_than_the_host
    play_tls(certified("DNS:app.internal"), name: "127.0.0.1", server_name: "app.internal")
    assert_equal "ok", content
  end

  {
    "a_certificate_for_another_name" => ["DNS:other", {}],
    "a_certificate_for_another_address" => ["IP:127.0.0.2", {name: "127.0.0.1"}],
    "a_certificate_for_a_name_where_an_address_is_asked_for" => ["DNS:localhost", {name: "127.0.0.1"}],
    "an_authority_that_is_not_trusted" => ["DNS:localhost", {ca: nil}]
  }.each do |name, (names, options)|
    define_method("test_tls_with_#{name}_is_refused") do
      play_tls(certified(names), **options)
      error = assert_held_none_after(Proxy::TLSError) { ask }
      assert_kind_of Proxy::ConnectError, error
      assert_equal [pool.upstream, :tls], [error.upstream, error.phase]
      assert_includes error.message, pool.upstream.tls.name
      assert_empty scripted.requests
    end
  end

  def test_tls_to_a_server_that_speaks_none
    play(->(peer) { peer << "HTTP/1.1 400 x\r\n\r\n" })
    @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new("https://127.0.0.1:#{scripted.port}"))
    assert_held_none_after(Proxy::TLSError) { ask }
  end

  def test_plain_http_to_a_server_of_tls
    @scripted = NeverBlockTest::ScriptedUpstream.new(KEEP, tls: certified)
    @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new("http://127.0.0.1:#{scripted.port}"))
    assert_raises(Proxy::InvalidResponse, Proxy::ConnectionLost) { ask }
  end

  # TLS tells a truncation from an end: without the closing alert the content may be cut off.
  def test_tls_that_ends_without_its_alert_is_no_end_of_the_content
    @scripted = NeverBlockTest::ScriptedUpstream.new(
      ->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\nabc" and peer.io.to_io.close },
      ->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\nabc" }, tls: certified
    )
    @pool = Proxy::ConnectionPool.new(Proxy::Upstream.new(scripted.url(host: "localhost"), ca_file: "#{@folder}/ca.crt"))
    assert_held_none_after(Proxy::ConnectionLost) { content }
    assert_equal "abc", content
  end

  class Outside < self
    include NeverBlockTest::Proxied::Outside
  end
end
