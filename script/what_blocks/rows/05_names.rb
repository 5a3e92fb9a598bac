# frozen_string_literal: true

require "etc"
require "net/http"
require "resolv"

# Names, with a resolver that takes Stage::WAIT for every name below slow.test
# and for the address 127.0.0.1 (see slow_names.c).
WhatBlocks::Catalogue.define "Names, with a slow resolver" do
  wait = WhatBlocks::Stage::WAIT

  waits("TCPSocket.new", "name") do
    port = serving { |socket| socket }
    measure(TCPSocket) { TCPSocket.new("slow.test", port) }
  end
  waits("Socket.tcp", "name") do
    port = serving { |socket| socket }
    measure(Socket) { Socket.tcp("slow.test", port) }
  end
  waits("TCPServer.new", "name") { measure(TCPServer) { TCPServer.new("slow.test", 0) } }
  waits("UDPSocket#connect", "name") { measure(0, UDPSocket.new) { |socket| socket.connect("slow.test", 9) } }
  waits("UDPSocket#send", "name") do
    text = "abc"
    measure(3, UDPSocket.new) { |socket| socket.send(text, 0, "slow.test", 9) }
  end
  waits("Net::HTTP.get", "name") do
    port = slow_http
    measure("slow") { Net::HTTP.get("slow.test", "/", port) }
  end
  waits("Addrinfo.getaddrinfo") { measure(Array) { Addrinfo.getaddrinfo("slow.test", 80) } }
  waits("Addrinfo.tcp", "name") { measure(Addrinfo) { Addrinfo.tcp("slow.test", 80) } }
  waits("Socket.getaddrinfo") { measure(Array) { Socket.getaddrinfo("slow.test", 80) } }
  waits("IPSocket.getaddress") { measure("127.0.0.1") { IPSocket.getaddress("slow.test") } }
  waits("Socket.sockaddr_in", "name") { measure(String) { Socket.sockaddr_in(80, "slow.test") } }
  waits("Addrinfo#getnameinfo") do
    slow_reverse_lookups
    address = Addrinfo.tcp("127.0.0.1", 80)
    measure(Array) { address.getnameinfo }
  end
  waits("Socket.getnameinfo") do
    slow_reverse_lookups
    address = Socket.sockaddr_in(80, "127.0.0.1")
    measure(Array) { Socket.getnameinfo(address) }
  end
  waits("Socket.getaddrinfo", "address, reverse look-up") do
    slow_reverse_lookups
    measure(Array) { Socket.getaddrinfo("127.0.0.1", 80, nil, :STREAM, nil, nil, true) }
  end
  waits("IPSocket#peeraddr", "reverse look-up") do
    slow_reverse_lookups
    server = TCPServer.new("127.0.0.1", 0)
    socket = TCPSocket.new("127.0.0.1", server.addr[1])
    measure(Array) { socket.peeraddr(true) }
  end
  waits("Resolv::DNS#getaddress", "slow name server") do
    server = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    resolver = Resolv::DNS.new(nameserver_port: [["127.0.0.1", server.addr[1]]])
    resolver.timeouts = wait
    measure(Resolv::ResolvError) { raised { resolver.getaddress("slow.test") } }
  end
  quick("Addrinfo.tcp", "address") { measure(Addrinfo) { Addrinfo.tcp("127.0.0.1", 80) } }
  quick("Socket.getservbyname") { measure(80) { Socket.getservbyname("http") } }
  quick("Socket.gethostname") { measure(String) { Socket.gethostname } }
  quick("Socket.getifaddrs") { measure(Array) { Socket.getifaddrs } }
  quick("Etc.getpwnam") { measure(Etc::Passwd) { Etc.getpwnam("root") } }
  quick("Etc.getgrgid") { measure(Etc::Group) { Etc.getgrgid(0) } }
  quick("File.expand_path", "~root") { measure(String) { File.expand_path("~root") } }
end
