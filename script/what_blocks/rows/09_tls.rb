# frozen_string_literal: true

require "net/http"

WhatBlocks::Catalogue.define "OpenSSL" do
  waits("OpenSSL::SSL::SSLSocket#connect", "slow server") do
    context = tls_server
    ours, theirs = UNIXSocket.pair
    later { OpenSSL::SSL::SSLSocket.new(theirs, context).accept }
    tls = tls_client(ours)
    measure(tls) { tls.connect }
  end
  waits("OpenSSL::SSL::SSLSocket#accept", "slow client") do
    ours, theirs = UNIXSocket.pair
    tls = OpenSSL::SSL::SSLSocket.new(ours, tls_server)
    later { tls_client(theirs).connect }
    measure(tls) { tls.accept }
  end
  waits("OpenSSL::SSL::SSLServer#accept") do
    server = OpenSSL::SSL::SSLServer.new(TCPServer.new("127.0.0.1", 0), tls_server)
    later { tls_client(TCPSocket.new("127.0.0.1", server.addr[1])).connect }
    measure(OpenSSL::SSL::SSLSocket) { server.accept }
  end
  waits("OpenSSL::SSL::SSLSocket#gets") do
    tls = tls_pair { |theirs| pause && theirs.puts("abc") }
    measure("abc\n") { tls.gets }
  end
  waits("OpenSSL::SSL::SSLSocket#read") do
    tls = tls_pair { |theirs| pause && theirs.print("abc") && theirs.close }
    measure("abc") { tls.read(3) }
  end
  waits("OpenSSL::SSL::SSLSocket#sysread") do
    tls = tls_pair { |theirs| pause && theirs.print("abc") }
    measure("abc") { tls.sysread(10) }
  end
  waits("OpenSSL::SSL::SSLSocket#write", "slow peer") do
    tls = tls_pair { |theirs| pause && theirs.read }
    measure(2_000_000) { tls.write("x" * 2_000_000) }
  end
  quick("OpenSSL::SSL::SSLSocket#close") { measure(nil, tls_pair { |theirs| theirs.read }) { |tls| tls.close } }
  waits("Net::HTTP.get", "https, slow server") do
    http = Net::HTTP.new("127.0.0.1", slow_http(tls: tls_server))
    http.use_ssl = true
    http.verify_mode = OpenSSL::SSL::VERIFY_NONE
    measure("slow") { http.get("/").body }
  end
end
