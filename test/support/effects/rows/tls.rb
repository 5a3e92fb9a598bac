# frozen_string_literal: true

require "openssl"
require_relative "../../certificates"

module NeverBlockTest
  module Effects
    # TLS between two sockets; the peer is a thread's, and does as it is told.
    module Tls
      def self.context
        @context ||= Dir.mktmpdir do |folder|
          Certificates.write(folder)
          OpenSSL::SSL::SSLContext.new.tap do |context|
            context.cert = OpenSSL::X509::Certificate.new(File.read("#{folder}/server.crt"))
            context.key = OpenSSL::PKey.read(File.read("#{folder}/server.key"))
          end
        end
      end

      def client(socket) = OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new).tap { |ssl| ssl.sync_close = true }

      # @return [Array<OpenSSL::SSL::SSLSocket>] client and server, connected
      def tls_pair
        ours, theirs = pair
        server = OpenSSL::SSL::SSLSocket.new(theirs, Tls.context)
        accepting = other { server.accept }
        ends = [client(ours).tap(&:connect), server]
        accepting.join
        ends
      end
    end
    Cell.include Tls

    row "`SSLSocket#connect`, `SSLSocket#accept`", :withdrawn do
      ours, theirs = pair
      tls = client(ours)
      operation(:io) { tls.connect }
      check do
        tls.close
        hello = drained(theirs)
        assert_equal 0x16, hello.getbyte(0), "the handshake had begun"
        assert_predicate theirs, :eof?
      end
    end

    row "`SSLSocket#read(length)`, `SSLSocket#gets`", :withdrawn do
      tls, peer = tls_pair
      peer.write("abc")
      operation(:io) { tls.read(10) }
      under_way { !tls.to_io.wait_readable(0) }
      check do
        peer.write("def\n")
        assert_equal "abcdef\n", tls.gets
      end
    end

    row "`SSLSocket#readpartial`, `SSLSocket#sysread`", :withdrawn do
      tls, peer = tls_pair
      operation(:io) { [true, false].sample ? tls.readpartial(10) : tls.sysread(10) }
      check do
        peer.write("abc")
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
