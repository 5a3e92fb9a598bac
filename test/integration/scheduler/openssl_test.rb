# frozen_string_literal: true

# engines: every - TLS waits to read for a write, and the reverse

require "test_helper"
require "support/loops"
require "support/virtual_time"
require "openssl"

# TLS in a loop, client and server: reads that need writes, many at once, cut connections.
class OpensslTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  KEY = OpenSSL::PKey::EC.generate("prime256v1")
  CERTIFICATE = OpenSSL::X509::Certificate.new.tap do |certificate|
    certificate.version, certificate.serial = 2, 1
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
    certificate.public_key = KEY
    certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 3600
    certificate.sign(KEY, "SHA256")
  end

  def test_many_connections_echo
    with_server do |port|
      bodies = Array.new(20) { |i| (i % 10).to_s * 100_000 }
      assert_equal bodies, NB.concurrently(bodies) { |body| connect(port) { |tls| echo(tls, body) } }
    end
  end

  def test_a_handshake_that_stands_still_holds_only_its_task
    with_server do |port|
      silent = TCPSocket.new("127.0.0.1", port)
      assert_equal "hello", connect(port) { |tls| echo(tls, "hello") }
      mute = TCPServer.new("127.0.0.1", 0)
      waiting = NB.spawn { connect(mute.local_address.ip_port) { flunk } }
      ticks = 0
      NB.spawn { 20.times { sleep(1) and ticks += 1 } }.join
      assert_equal 20, ticks
      waiting.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(waiting)
      [silent, mute].each(&:close)
    end
  end

  def test_timeouts
    with_server do |port|
      connect(port) do |tls|
        assert_raises(Timeout::Error) { Timeout.timeout(2) { tls.read(1) } }
        assert_equal "still there", echo(tls, "still there")
        assert_equal :wait_readable, tls.read_nonblock(1, exception: false)
      end
    end
  end

  def test_a_cut_connection
    with_server do |port|
      error = outcome(NB.spawn { connect(port) { |tls| tls.to_io.shutdown and tls.read(1) or raise EOFError } })
      assert_includes [OpenSSL::SSL::SSLError, EOFError, Errno::ECONNRESET, Errno::EPIPE], error.class
    end
  end

  private

  def with_server
    in_loop do |scope|
      server = TCPServer.new("127.0.0.1", 0)
      context = OpenSSL::SSL::SSLContext.new.tap { |settings| settings.key, settings.cert = KEY, CERTIFICATE }
      accepting = scope.spawn { loop { serve(scope, context, server.accept) } }
      yield server.local_address.ip_port
      accepting.cancel
      scope.cancel
      server.close
    end
  end

  def serve(scope, context, socket)
    scope.spawn do
      tls = OpenSSL::SSL::SSLSocket.new(socket, context)
      tls.accept
      while (size = tls.gets)
        tls.write(tls.read(size.to_i))
      end
    rescue OpenSSL::SSL::SSLError, SystemCallError, IOError
      nil
    ensure
      socket.close
    end
  end

  def connect(port)
    socket = TCPSocket.new("127.0.0.1", port)
    tls = OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new.tap { |context| context.verify_mode = OpenSSL::SSL::VERIFY_NONE })
    tls.connect
    yield tls
  ensure
    socket&.close
  end

  def echo(tls, body)
    tls.write("#{body.bytesize}\n", body)
    tls.read(body.bytesize)
  end
end
