# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/loops"
require "socket"

# Names of services, and link-local addresses with an interface: in a loop as outside of one. Look-ups of hosts:
# test/integration/patches/names_test.rb.
class GetaddrinfoPatchTest < Minitest::Test
  include NeverBlockTest::Loops

  HOST = "127.0.0.1"
  SCOPED = "fe80::1%lo"

  def self.told(address) = [address.inspect_sockaddr, address.socktype]

  # What each gives, or its error.
  LOOK_UPS = {
    "Addrinfo.getaddrinfo" => -> { Addrinfo.getaddrinfo(HOST, "http", nil, :STREAM).map { |one| told(one) } },
    "Addrinfo.getaddrinfo of an interface" => -> { Addrinfo.getaddrinfo(SCOPED, 80, nil, :STREAM).map { |one| told(one) } },
    "Addrinfo.ip" => -> { told(Addrinfo.ip(SCOPED)) },
    "Addrinfo.tcp" => -> { [Addrinfo.tcp(HOST, "http"), Addrinfo.tcp(SCOPED, "http"), Addrinfo.tcp(SCOPED, 80)].map { |one| told(one) } },
    "Addrinfo.udp" => -> { [Addrinfo.udp(HOST, "domain"), Addrinfo.udp(SCOPED, "domain")].map { |one| told(one) } },
    "Socket.getaddrinfo" => -> { Socket.getaddrinfo(HOST, "http", nil, :STREAM) },
    "Socket.sockaddr_in" => -> { [Socket.sockaddr_in("http", HOST), Socket.sockaddr_in(80, SCOPED)] },
    "Socket.pack_sockaddr_in" => -> { Socket.pack_sockaddr_in("http", HOST) },
    "an unknown service" => -> { Addrinfo.tcp(HOST, "no-such-service") },
    "an unknown service of a datagram" => -> { Addrinfo.udp(HOST, "no-such-service") },
    "an address that is none" => -> { Addrinfo.tcp("fe80::zz%lo", 80) }
  }.freeze

  LOOK_UPS.each do |name, look_up|
    define_method(:"test_#{name.tr(" .", "__").downcase}") do
      outside = result(&look_up)
      assert_equal outside, in_loop { result(&look_up) }
    end
  end

  def test_a_server_and_its_client_by_the_name_of_a_service
    name, number = free_service("tcp")
    in_loop do
      server = TCPServer.new(HOST, name)
      assert_equal number, server.local_address.ip_port
      client = TCPSocket.new(HOST, name)
      assert_equal number, client.remote_address.ip_port
    ensure
      [client, server].each { |socket| socket&.close }
    end
  end

  def test_datagrams_by_the_name_of_a_service
    name, number = free_service("udp")
    in_loop do
      server, client, other = Array.new(3) { UDPSocket.new }
      server.bind(HOST, name)
      client.connect(HOST, name)
      assert_equal [number, number], [server.local_address.ip_port, client.remote_address.ip_port]
      client.send("by connection", 0)
      other.send("by name", 0, HOST, name)
      assert_equal ["by connection", "by name"], Array.new(2) { server.recvfrom(100).first }
    ensure
      [server, client, other].each { |socket| socket&.close }
    end
  end

  private

  def result
    yield
  rescue SocketError => error
    [error.class, error.message]
  end

  # @return [Array(String, Integer)] name and number of a service that none offers here
  def free_service(protocol)
    skip "this system has no list of services" unless File.readable?("/etc/services")
    services = File.read("/etc/services").scan(/^([a-z][\w-]*)\s+(\d+)\/#{protocol}/).select { |_, number| number.to_i > 1_023 }
    services.map { |name, number| [name, number.to_i] }.find { |_, number| free?(protocol, number) } || skip("each of them is offered")
  end

  def free?(protocol, number)
    (protocol == "tcp") ? TCPServer.new(HOST, number).close : UDPSocket.new.tap { |socket| socket.bind(HOST, number) }.close
    true
  rescue SystemCallError
    false
  end
end
