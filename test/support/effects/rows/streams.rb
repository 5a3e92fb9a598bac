# frozen_string_literal: true

require "pty"
require "io/console"
require_relative "../stream_rows"

# Pipes, terminals, and waiting for descriptors.
module NeverBlockTest
  module Effects
    reading_row "`IO#read(length)`, `IO#gets`, `IO#each_line`, `IO#readlines` of a pipe", :pipe, *READING
    single_read_row "`IO#readpartial`, `IO#sysread` of a pipe", :pipe, ->(io) { io.readpartial(10) }, ->(io) { io.sysread(10) }
    writing_row "`IO#write` to a pipe", :pipe
    single_write_row "`IO#syswrite` to a pipe", :pipe, ->(io, byte) { io.syswrite(byte) }

    row "`IO#write` of several strings, `IO#puts`, to a pipe or a socket", :withdrawn, calls: %i[pipe pair].product(%i[write puts]) do |ends, name|
      reader, writer = send(ends)
      lines = Array.new(3000) { |number| number.to_s * 100 + "\n" }
      operation(:io) { writer.public_send(name, *lines) }
      check do
        received = drained(reader)
        writer.write("end")
        buffered = drained(reader)
        assert_operator buffered.bytesize, :<=, 8192 + 3
        assert_bytes lines.join[0, received.bytesize + buffered.bytesize - 3] + "end", received + buffered
      end
    end

    row "`IO#flush`, and `IO#write` after buffered ones", :withdrawn do
      reader, writer = pipe
      writer.sync = false
      writer.write("buffered")
      operation(:io) { writer.write(FLOOD) }
      check do
        sent = drained(reader)
        assert_bytes "buffered" + "x" * (sent.bytesize - 8), sent
        writer.write("end")
        writer.flush
        assert_equal "end", drained(reader)
      end
    end

    row "`IO#write` to a terminal", :interrupted do
      master, slave = PTY.open
      close_finally(master, slave)
      slave.raw!
      operation(%i[job io]) { slave.write(FLOOD) }
      check { check_cut_off(master, -> { slave.write("end") }) }
    end

    row "`IO#read`, `IO#readpartial` of a terminal", :withdrawn, calls: [->(io) { io.read(10) }, ->(io) { io.readpartial(10) }] do |act|
      master, slave = PTY.open
      close_finally(master, slave)
      slave.raw!
      operation(:io) { act.call(slave) }
      check do
        master << "abc"
        assert_equal "abc", slave.readpartial(10)
      end
    end

    row "`IO#getch`, `IO#getpass`, `IO#noecho`, `IO#raw`", :withdrawn,
      calls: [:getch.to_proc, :getpass.to_proc, ->(io) { io.noecho(&:gets) }, ->(io) { io.raw(&:getc) }] do |act|
      master, slave = PTY.open
      close_finally(master, slave)
      operation(:io) { act.call(slave) }
      under_way { !slave.echo? }
      check do
        assert_predicate slave, :echo?, "its mode was restored"
        drained(master)
        master << "abc\n"
        assert_equal "abc\n", slave.gets
        assert_equal "abc\r\n", drained(master)
      end
    end

    row "`IO#close`, `IO#reopen`, while a thread uses it", :waited_for, calls: [->(io, _) { io.close }, ->(io, other) { io.reopen(other) }] do |act|
      reader, = pipe
      empty = close_finally(File.open(IO::NULL))
      using = other { raised { reader.read(1) } }
      Thread.pass until using.stop?
      operation(%i[sleep block], brief: true) { act.call(reader, empty) }
      check do
        assert reader.closed? || reader.read.empty?
        assert_instance_of IOError, using.value
      end
    end

    row "`IO#close` with buffered bytes", :withdrawn do
      reader, writer = pipe
      fill(writer)
      writer.sync = false
      writer.write("buffered")
      operation(:io) { writer.close }
      check do
        assert_equal "", drained(reader).delete("x")
        others_first
        refute_predicate writer, :closed?
        writer.close
        assert_equal "buffered", reader.read
      end
    end

    row "`IO#wait_readable`, `IO#wait`", :withdrawn, calls: [:wait_readable.to_proc, :wait.to_proc, ->(io) { io.wait(60) }] do |act|
      reader, writer = pipe
      operation(:io) { act.call(reader) }
      check do
        writer << "abc"
        others_first
        assert_same reader, act.call(reader)
        assert_equal "abc", reader.readpartial(10)
      end
    end

    row "`IO#wait_writable`", :withdrawn do
      reader, writer = pipe
      fill(writer)
      operation(:io) { writer.wait_writable }
      check do
        assert_nil writer.wait_writable(0)
        drained(reader)
        assert_same writer, writer.wait_writable
      end
    end

    row "`IO#wait_priority`", :withdrawn do
      server = close_finally(TCPServer.new("127.0.0.1", 0))
      sender = close_finally(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
      receiver = close_finally(server.accept)
      operation(:io) { receiver.wait_priority }
      check do
        sender.sendmsg("!", Socket::MSG_OOB)
        assert_same receiver, receiver.wait_priority
        assert_equal "!", receiver.recv(1, Socket::MSG_OOB)
      end
    end

    row "`IO.select`", :withdrawn, calls: [->(io) { IO.select([io]) }, ->(io) { IO.select([io], nil, nil, 60) }] do |act|
      reader, writer = pipe
      operation(:select) { act.call(reader) }
      check do
        writer << "abc"
        assert_equal [[reader], [], []], act.call(reader)
        assert_equal "abc", reader.readpartial(10)
      end
    end

    row "`IO.copy_stream` between files (Ruby 3.4 and later)", :waited_for, since: "3.4" do
      from, to = evicted_file, synchronous_file
      operation(:job, brief: true) { IO.copy_stream(from, to) }
      check do
        assert_equal CONTENT.bytesize, value if returned?
        assert_bytes (returned? ? CONTENT : ""), File.binread(to.path)
        to.rewind
        to.truncate(0)
        from.rewind
        assert_equal 10, IO.copy_stream(from, to, 10)
        settle
        assert_equal CONTENT[0, 10], File.binread(to.path)
      end
    end

    row "`IO.copy_stream` from a pipe or a socket", :withdrawn, calls: %i[pipe pair] do |ends|
      reader, writer = send(ends)
      path = "#{folder}/copy"
      writer << "abc"
      operation(:io) { IO.copy_stream(reader, path) }
      under_way { !reader.wait_readable(0) }
      check do
        writer << "def"
        others_first
        assert_equal "def", reader.readpartial(10)
        assert_equal "abc", File.read(path)
      end
    end

    row "`IO.copy_stream` to a pipe or a socket", :withdrawn, calls: %i[pipe pair].product([true, false]) do |ends, regular|
      reader, writer = send(ends)
      source = regular ? close_finally(File.open("#{folder}/flood", "w+b")) : StringIO.new(+"")
      source.write(FLOOD)
      source.rewind
      operation(:io) { IO.copy_stream(source, writer) }
      check { check_cut_off(reader, -> { assert_operator(source.pos, :<, FLOOD.bytesize) && writer.write("end") }) }
    end
  end
end
