# frozen_string_literal: true

require "openssl"
require_relative "../../certificates"

module NeverBlockTest
  module Effects
    # TLS between two sockets; the peer runs on a thread, as the test directs.
    module Tls
      def self.context
        @context ||= Dir.mktmpdir do |folder|
          Certificates.write(folder)
          OpenSSL::SSL::SSLContext.new.tap do |context|
            context.cert = OpenSSL::X509::Certificate.new(File.read("#{folder}/server.crt"))
            context.key = OpenSSL::PKey.read(File.read("#{folder}/server.key"))
            context.session_id_context = "effects" # otherwise SSLServer would set it, and a context in use is frozen
          end
        end
      end

      def client(socket) = OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new).tap { |ssl| ssl.sync_close = true }

      def server(socket) = OpenSSL::SSL::SSLSocket.new(socket, Tls.context).tap { |ssl| ssl.sync_close = true }

      # @return [Array<OpenSSL::SSL::SSLSocket>] client and server, connected
      def tls_pair
        ours, theirs = pair
        accepting = other { server(theirs).tap(&:accept) }
        [client(ours).tap(&:connect), accepting.value]
      end
    end
    Cell.include Tls

    row "`SSLSocket#connect`, `SSLSocket#accept`", :withdrawn, calls: %i[connect accept] do |name|
      ours, theirs = pair
      tls = (name == :accept) ? server(ours) : client(ours)
      operation(:io) { tls.public_send(name) }
      check do
        tls.close
        assert_equal (name == :connect) ? [0x16] : [], drained(theirs).bytes.first(1), "what begins the handshake"
        others_first
        assert_predicate theirs, :eof?
      end
    end

    row "`SSLServer#accept`, in the handshake", :withdrawn do
      server = close_finally(OpenSSL::SSL::SSLServer.new(TCPServer.new("127.0.0.1", 0), Tls.context))
      client = close_finally(TCPSocket.new("127.0.0.1", server.to_io.local_address.ip_port))
      operation(:io) { server.accept }
      under_way { !server.to_io.wait_readable(0) }
      check { assert_predicate client, :eof? }
    end

    row "`SSLSocket#read(length)`, `SSLSocket#gets`", :withdrawn, calls: [->(tls) { tls.read(10) }, :gets.to_proc] do |act|
      tls, peer = tls_pair
      peer.write("abc")
      operation(:io) { act.call(tls) }
      under_way { !tls.to_io.wait_readable(0) }
      check do
        peer.write("def\n")
        others_first
        assert_equal "abcdef\n", tls.gets
      end
    end

    row "`SSLSocket#readpartial`, `SSLSocket#sysread`", :withdrawn, calls: %i[readpartial sysread] do |name|
      tls, peer = tls_pair
      operation(:io) { tls.public_send(name, 10) }
      check do
        peer.write("abc")
        others_first
        assert_equal "abc", tls.readpartial(10)
      end
    end

    row "`SSLSocket#write`", :withdrawn do
      tls, peer = tls_pair
      operation(:io) { tls.write(FLOOD) }
      check do
        received = +""
        other { received << peer.readpartial(1 << 20) until received.end_with?("end") }
        tls.write("end")
        wait_until("the peer to have it all") { received.end_with?("end") }
        assert_bytes "#{FLOOD}end", received
      end
    end
  end
end
