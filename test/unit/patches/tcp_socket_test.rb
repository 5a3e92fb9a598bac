# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "socket"

# Which calls of TCPSocket.new are raced by Connector, and what a socket is that was. On a Ruby that needs no patch too.
class TCPSocketPatchTest < Minitest::Test
  Patch = NeverBlock::Patches::TCPSocket
  LIMITS = Patch.const_get(:LIMITS)

  # Names may have several addresses, and services by name are looked up.
  RACED = [
    ["www.example.com", 80], ["www.example.com", "80"], ["www.example.com", "https"], ["127.0.0.1", "https"], ["fe80::1%eth0", 80], ["a", -1], ["a", 65_536],
    ["a", 80, "10.0.0.1"], ["a", 80, "10.0.0.1", 0], ["a", 80, nil, "0"], ["a", 80, nil, ""]
  ].freeze

  # Plain addresses need no race; the rest is unusual or wrong, and Ruby's own.
  RUBYS = [
    ["127.0.0.1", 80], ["::1", 80], ["127.0.0.1", "80"], ["", 80], ["<any>", 80], ["<broadcast>", 80], [nil, 80], [:a, 80], ["a" * 1_025, 80], ["a"], ["a", nil], ["a", ""],
    ["a", "s" * 32], ["a", 1.5], ["a", 80, nil, 1_234], ["a", 80, nil, "1234"], ["a", 80, nil, nil, nil, 1], []
  ].freeze

  RACED.each { |arguments| define_method(:"test_#{arguments.inspect}_is_raced") { assert Patch.race?(*arguments, fast_fallback: true) } }

  RUBYS.each_with_index { |arguments, n| define_method(:"test_#{n}_#{arguments.inspect[0, 60]}_is_ruby_s") { refute Patch.race?(*arguments, fast_fallback: true) } }

  def test_limits
    [{}, {connect_timeout: 1}, {connect_timeout: 0.5, resolv_timeout: nil}, {resolv_timeout: 0}].each { |limits| assert Patch.race?("a", 80, fast_fallback: true, **limits), limits.inspect }
    [{connect_timeout: -1}, {connect_timeout: "1"}, {connect_timeout: Complex(1, 1)}, {unknown: 1}, {open_timeout: 1, connect_timeout: 1}].each do |limits|
      refute Patch.race?("a", 80, fast_fallback: true, **limits), limits.inspect
    end
    assert_equal LIMITS.include?(:open_timeout), Patch.race?("a", 80, fast_fallback: true, open_timeout: 1)
  end

  def test_a_race_can_be_declined
    refute Patch.race?("a", 80, fast_fallback: false)
  end

  def test_a_socket_that_was_connected_elsewhere
    server = TCPServer.new("127.0.0.1", 0)
    connected = Socket.tcp("127.0.0.1", server.local_address.ip_port)
    socket = TCPSocket.allocate
    Patch.adopt(socket, connected)
    assert_equal [connected.fileno, true, true, BasicSocket.do_not_reverse_lookup], [socket.fileno, socket.binmode?, socket.sync, socket.do_not_reverse_lookup]
    other = server.accept
    socket.write("through it")
    socket.close
    assert_equal "through it", other.read
  ensure
    [server, other].each { |io| io&.close }
  end
end
