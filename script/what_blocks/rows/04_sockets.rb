# frozen_string_literal: true

require "net/http"

# Sockets that are addressed by number or path; names have a table of their own.
WhatBlocks::Catalogue.define "Sockets" do
  wait = WhatBlocks::Stage::WAIT
  text = "abc"

  quick("TCPServer.new", "address") { measure(TCPServer) { TCPServer.new("127.0.0.1", 0) } }
  waits("TCPServer#accept") do
    server = TCPServer.new("127.0.0.1", 0)
    later { TCPSocket.new("127.0.0.1", server.addr[1]) }
    measure(TCPSocket) { server.accept }
  end
  quick("TCPServer#accept_nonblock") do
    server = TCPServer.new("127.0.0.1", 0)
    measure(:wait_readable) { server.accept_nonblock(exception: false) }
  end
  waits("TCPServer#sysaccept") do
    server = TCPServer.new("127.0.0.1", 0)
    later { TCPSocket.new("127.0.0.1", server.addr[1]) }
    measure(Integer) { server.sysaccept }
  end
  waits("TCPSocket.new", "address, crowded server") do
    port = crowded_port
    measure(TCPSocket) { TCPSocket.new("127.0.0.1", port) }
  end
  waits("TCPSocket.new", "address, connect_timeout passes") do
    port = crowded_port
    timeout = ->(error) { [IO::TimeoutError, Errno::ETIMEDOUT].include?(error.class) } # the first since 3.4
    measure(timeout) { raised { TCPSocket.new("127.0.0.1", port, connect_timeout: wait) } }
  end
  waits("Socket.tcp", "address, crowded server") do
    port = crowded_port
    measure(Socket) { Socket.tcp("127.0.0.1", port) }
  end
  waits("Socket#connect", "crowded server") do
    address = Addrinfo.tcp("127.0.0.1", crowded_port)
    socket = Socket.new(:INET, :STREAM)
    measure(0) { socket.connect(address) }
  end
  quick("Socket#connect_nonblock") do
    address = Addrinfo.tcp("127.0.0.1", crowded_port)
    socket = Socket.new(:INET, :STREAM)
    measure(:wait_writable) { socket.connect_nonblock(address, exception: false) }
  end
  waits("Socket#accept") do
    server = Socket.new(:INET, :STREAM).tap { |socket| socket.bind(Addrinfo.tcp("127.0.0.1", 0)) }
    server.listen(5)
    later { server.local_address.connect }
    measure(Array) { server.accept }
  end
  waits("Socket.accept_loop") do
    servers = Socket.tcp_server_sockets("127.0.0.1", 0)
    later { servers.first.local_address.connect }
    measure(:accepted) { Socket.accept_loop(servers) { break :accepted } }
  end

  waits("IO#read", "TCP socket") do
    ours, theirs = tcp_pair
    later { theirs.close }
    measure("") { ours.read }
  end
  waits("IO#gets", "TCP socket") do
    ours, theirs = tcp_pair
    later { theirs << "abc\n" }
    measure("abc\n") { ours.gets }
  end
  waits("IO#write", "TCP socket, slow peer") do
    ours, theirs = tcp_pair
    clog(ours)
    later { theirs.read }
    measure(1_000_000) { ours.write("x" * 1_000_000) }
  end
  waits("BasicSocket#recv") do
    ours, theirs = UNIXSocket.pair
    later { theirs << "abc" }
    measure("abc") { ours.recv(10) }
  end
  waits("Socket#recvfrom") do
    ours, theirs = Socket.pair(:UNIX, :DGRAM)
    later { theirs.send(text, 0) }
    measure(Array) { ours.recvfrom(10) }
  end
  waits("BasicSocket#recvmsg") do
    ours, theirs = UNIXSocket.pair
    later { theirs << "abc" }
    measure(Array) { ours.recvmsg }
  end
  quick("BasicSocket#recv_nonblock") do
    ours, _theirs = UNIXSocket.pair
    measure(:wait_readable) { ours.recv_nonblock(10, exception: false) }
  end
  waits("BasicSocket#send", "slow peer") do
    ours, theirs = UNIXSocket.pair
    clog(ours)
    later { theirs.read }
    measure(3) { ours.send(text, 0) }
  end
  waits("BasicSocket#sendmsg", "slow peer") do
    ours, theirs = UNIXSocket.pair
    clog(ours)
    later { theirs.read }
    measure(3) { ours.sendmsg("abc") }
  end
  waits("UNIXSocket#recv_io") do
    ours, theirs = UNIXSocket.pair
    later { theirs.send_io($stderr) }
    measure(IO) { ours.recv_io }
  end
  waits("UNIXSocket#send_io", "slow peer") do
    ours, theirs = UNIXSocket.pair
    clog(ours)
    later { theirs.read }
    measure(nil) { ours.send_io($stderr) }
  end
  waits("UNIXServer#accept") do
    path = File.join(folder, "socket")
    server = UNIXServer.new(path)
    later { UNIXSocket.new(path) }
    measure(UNIXSocket) { server.accept }
  end
  quick("UNIXSocket.new") do
    path = File.join(folder, "socket")
    server = UNIXServer.new(path)
    measure(UNIXSocket, server) { UNIXSocket.new(path) }
  end
  waits("UDPSocket#recvfrom") do
    ours = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    later { UDPSocket.new.send(text, 0, "127.0.0.1", ours.addr[1]) }
    measure(Array) { ours.recvfrom(10) }
  end
  quick("UDPSocket#recvfrom_nonblock") do
    ours = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    measure(:wait_readable) { ours.recvfrom_nonblock(10, exception: false) }
  end
  quick("UDPSocket#send", "address") do
    theirs = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    ours = UDPSocket.new
    port = theirs.addr[1]
    measure(3) { ours.send(text, 0, "127.0.0.1", port) }
  end
  quick("UDPSocket#send", "connected") do
    theirs = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    ours = UDPSocket.new.tap { |socket| socket.connect("127.0.0.1", theirs.addr[1]) }
    measure(3) { ours.send(text, 0) }
  end
  waits("Socket.udp_server_loop_on") do
    servers = Socket.udp_server_sockets("127.0.0.1", 0)
    later { servers.first.local_address.connect { |socket| socket.send(text, 0) } }
    measure("abc") { Socket.udp_server_loop_on(servers) { |message, _source| break message } }
  end
  quick("BasicSocket#shutdown") { measure(0, *tcp_pair) { |ours, _theirs| ours.shutdown } }
  quick("IO#close", "TCP socket") { measure(nil, *tcp_pair) { |ours, _theirs| ours.close } }
  waits("IO#close", "TCP socket, SO_LINGER, slow peer") do
    ours, theirs = tcp_pair
    clog(ours)
    ours.setsockopt(Socket::Option.linger(true, 5))
    later { theirs.read }
    measure(nil) { ours.close }
  end
  waits("Net::HTTP.get", "address, slow server") do
    port = slow_http
    measure("slow") { Net::HTTP.get("127.0.0.1", "/", port) }
  end
end
