# frozen_string_literal: true

require_relative "../stream_rows"

# Sockets and TLS. The peers are plain threads.
module NeverBlockTest
  module Effects
    # Peers for the rows below.
    module Peers
      # A server with a full queue, so that no further connection is established.
      # @return [TCPServer]
      def full_server
        server = close_finally(TCPServer.new("127.0.0.1", 0))
        server.listen(0)
        until @full
          client = close_finally(Socket.new(:INET, :STREAM))
          address = server.local_address
          begin
            client.connect_nonblock(address)
          rescue IO::WaitWritable
            @full = !client.wait_writable(0.02)
          end
        end
        server
      end

      # Ports of the connections that existed before, without the one that left.
      def accepted_ports(server)
        ports = []
        ports << close_finally(server.accept_nonblock).remote_address.ip_port while server.wait_readable(0)
        ports
      rescue IO::WaitReadable
        ports
      end

      # Ruby's own Socket.tcp waits for all of its sockets at once, and before that for a pipe of the resolver.
      def connecting?
        NeverBlock.tasks.any? { |task| task.waits_for.to_s.include?("writable") } || [@victim.send(:waiting)&.at(1)].flatten.any?(BasicSocket)
      end

      # @return [Array<UNIXSocket>] reader and writer
      def datagram_pair = UNIXSocket.pair(:DGRAM).tap { |ends| close_finally(*ends) }

      def check_accepting(server)
        client = close_finally(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
        others_first
        assert_equal client.local_address.ip_port, close_finally(server.accept).remote_address.ip_port
      end

      def check_receiving(receiver)
        sender = close_finally(UDPSocket.new)
        sender.connect("127.0.0.1", receiver.local_address.ip_port)
        sender.write("abc")
        others_first
        assert_equal "abc", receiver.recvfrom(10).first
      end

      def check_connecting(server)
        accepted_ports(server)
        client = close_finally(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
        assert_equal client.local_address.ip_port, accepted_ports(server).last
      end
    end
    Cell.include Peers

    SERVER_LOOPS = [
      ->(server, _) { Socket.accept_loop(server) { raise "a connection" } },
      ->(_, receiver) { Socket.udp_server_loop_on([receiver]) { raise "a datagram" } },
      ->(*) { Socket.tcp_server_loop("127.0.0.1", 0) { raise "a connection" } },
      ->(*) { Socket.udp_server_loop("127.0.0.1", 0) { raise "a datagram" } }
    ].freeze

    reading_row "`Socket#read(length)`, `Socket#gets`, `Socket#each_line`, `Socket#readlines`", :pair, *READING
    single_read_row "`Socket#readpartial`, `Socket#recv`, `Socket#recvfrom`", :pair, *%i[readpartial recv recvfrom].map { |name| ->(socket) { socket.public_send(name, 10) } }
    single_read_row "`BasicSocket#recvmsg`", :pair, :recvmsg.to_proc
    writing_row "`Socket#write`", :pair
    single_write_row "`Socket#send`", :pair, ->(socket, byte) { socket.send(byte, 0) }
    single_write_row "`BasicSocket#sendmsg`", :pair, ->(socket, byte) { socket.sendmsg(byte) }
    # A datagram to the loopback device never waits, a datagram to another process does.
    single_write_row "`UDPSocket#send`, `Socket#send` of a datagram", :datagram_pair, ->(socket, byte) { socket.send(byte, 0) }, ->(socket, byte) { socket.sendmsg(byte) }

    row "`UNIXSocket#recv_io`", :withdrawn do
      ours, theirs = pair
      reader, = pipe
      operation(:io) { ours.recv_io }
      check do
        theirs.send_io(reader)
        others_first
        assert_equal reader.stat.ino, close_finally(ours.recv_io).stat.ino
      end
    end

    row "`UNIXSocket#send_io`", :withdrawn do
      ours, theirs = pair
      reader, = pipe
      fill(ours)
      operation(:io) { ours.send_io(reader) }
      check do
        assert_equal "", drained(theirs).delete("x")
        others_first
        assert_equal "", drained(theirs), "the byte that carries it was sent"
        ours.send_io(reader)
        assert_equal reader.stat.ino, close_finally(theirs.recv_io).stat.ino
      end
    end

    row "`TCPServer#accept`, `TCPServer#sysaccept`, `UNIXServer#accept`, `Socket#accept`", :withdrawn, calls: %i[accept sysaccept] do |name|
      server = close_finally(TCPServer.new("127.0.0.1", 0))
      operation(:io) { server.public_send(name) }
      check { check_accepting(server) }
    end

    row "`Socket.accept_loop`, `Socket.tcp_server_loop`, `Socket.udp_server_loop`", :withdrawn, calls: SERVER_LOOPS do |act|
      server, receiver = close_finally(TCPServer.new("127.0.0.1", 0)), close_finally(UDPSocket.new)
      receiver.bind("127.0.0.1", 0)
      operation(:select) { instance_exec(server, receiver, &act) }
      check do # besides, the sockets that the loops have made are closed
        check_accepting(server)
        check_receiving(receiver)
      end
    end

    row "`TCPSocket.new`, `Socket.tcp` by address, `Socket#connect`", :withdrawn,
      calls: [->(*address) { TCPSocket.new(*address) }, ->(*address) { Socket.tcp(*address) }, ->(*address) { Addrinfo.tcp(*address).connect },
        ->(*address) { Socket.open(:INET, :STREAM) { |socket| socket.connect(Addrinfo.tcp(*address)) } }] do |act|
      server = full_server
      operation(:io) { act.call("127.0.0.1", server.local_address.ip_port) }
      check { check_connecting(server) }
    end

    row "`TCPSocket.new`, `Socket.tcp` by name, while it connects", :withdrawn, calls: [TCPSocket.method(:new), Socket.method(:tcp)] do |act|
      server = full_server
      operation(%i[io select block job]) { act.call("localhost", server.local_address.ip_port) }
      under_way { connecting? }
      check do
        check_connecting(server)
        assert_empty NeverBlock.tasks - [NeverBlock::Task.current]
      end
    end

    row "`UDPSocket#recvfrom`", :withdrawn do
      receiver = close_finally(UDPSocket.new)
      receiver.bind("127.0.0.1", 0)
      operation(:io) { receiver.recvfrom(10) }
      check { check_receiving(receiver) }
    end
  end
end
