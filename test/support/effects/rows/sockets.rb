# frozen_string_literal: true

# Sockets and TLS. The peers are plain.
module NeverBlockTest
  module Effects
    # Peers for the rows below.
    module Peers
      # A server whose queue is full, so that nobody's connection is established.
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

      # What had connected before, and not the one that left.
      def accepted_ports(server)
        ports = []
        ports << close_finally(server.accept_nonblock).remote_address.ip_port while server.wait_readable(0)
        ports
      rescue IO::WaitReadable
        ports
      end

      def check_connecting(server)
        accepted_ports(server)
        client = close_finally(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
        assert_equal client.local_address.ip_port, accepted_ports(server).last
      end
    end
    Cell.include Peers

    row "`Socket#read(length)`, `Socket#gets`", :withdrawn do
      ours, theirs = pair
      theirs << "abc"
      operation(:io) { ours.read(10) }
      under_way { !ours.wait_readable(0) }
      check do
        theirs << "def\n"
        assert_equal "def\n", ours.gets, "the bytes that had been read are gone, as they are with threads"
      end
    end

    row "`Socket#readpartial`, `Socket#recv`", :withdrawn do
      ours, theirs = pair
      operation(:io) { [true, false].sample ? ours.recv(10) : ours.readpartial(10) }
      check do
        theirs << "abc"
        assert_equal "abc", ours.recv(10)
      end
    end

    row "`Socket#write`", :withdrawn do
      ours, theirs = pair
      operation(:io) { ours.write(FLOOD) }
      check { check_cut_off(theirs, -> { ours.write("end") }) }
    end

    row "`Socket#send`", :withdrawn do
      ours, theirs = pair
      ours.write_nonblock(FLOOD)
      byte = "y"
      operation(:io) { ours.send(byte, 0) }
      check do
        assert_equal "", drained(theirs).delete("x")
        assert_equal 1, ours.send(byte, 0)
        assert_equal byte, drained(theirs)
      end
    end

    row "`BasicSocket#recvmsg`", :withdrawn do
      ours, theirs = pair
      operation(:io) { ours.recvmsg }
      check do
        theirs << "abc"
        assert_equal "abc", ours.recvmsg.first
      end
    end

    row "`BasicSocket#sendmsg`", :withdrawn do
      ours, theirs = pair
      ours.write_nonblock(FLOOD)
      byte = "y"
      operation(:io) { ours.sendmsg(byte) }
      check do
        assert_equal "", drained(theirs).delete("x")
        assert_equal 1, ours.sendmsg(byte)
        assert_equal byte, drained(theirs)
      end
    end

    row "`UNIXSocket#recv_io`", :withdrawn do
      ours, theirs = pair
      reader, = pipe
      operation(:io) { ours.recv_io }
      check do
        theirs.send_io(reader)
        assert_equal reader.stat.ino, close_finally(ours.recv_io).stat.ino
      end
    end

    row "`UNIXSocket#send_io`", :withdrawn do
      ours, theirs = pair
      reader, = pipe
      ours.write_nonblock(FLOOD)
      operation(:io) { ours.send_io(reader) }
      check do
        assert_equal "", drained(theirs).delete("x"), "the byte that carries it was sent"
        ours.send_io(reader)
        assert_equal reader.stat.ino, close_finally(theirs.recv_io).stat.ino
      end
    end

    row "`TCPServer#accept`", :withdrawn do
      server = close_finally(TCPServer.new("127.0.0.1", 0))
      operation(:io) { server.accept }
      check do
        client = close_finally(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
        assert_equal client.local_address.ip_port, close_finally(server.accept).remote_address.ip_port
      end
    end

    row "`TCPSocket.new` by address, `Socket#connect`", :withdrawn do
      server = full_server
      operation(:io) { TCPSocket.new("127.0.0.1", server.local_address.ip_port) }
      check { check_connecting(server) }
    end

    row "`TCPSocket.new` by name, while it connects", :withdrawn do
      server = full_server
      operation(%i[io select block job]) { TCPSocket.new("localhost", server.local_address.ip_port) }
      under_way { NeverBlock.tasks.any? { |task| task.waits_for.to_s.include?("writable") } || @victim.waits_for.to_s.include?("several") }
      check do
        check_connecting(server)
        assert_empty NeverBlock.tasks - [NeverBlock::Task.current]
      end
    end

    row "`UDPSocket#recvfrom`", :withdrawn do
      receiver, sender = Array.new(2) { close_finally(UDPSocket.new) }
      receiver.bind("127.0.0.1", 0)
      operation(:io) { receiver.recvfrom(10) }
      check do
        sender.connect("127.0.0.1", receiver.local_address.ip_port)
        sender.write("abc")
        assert_equal "abc", receiver.recvfrom(10).first
      end
    end
  end
end
