# frozen_string_literal: true

require "pty"
require "io/console"

# Pipes, terminals, and waiting for descriptors.
module NeverBlockTest
  module Effects
    # More than any pipe or socket takes.
    FLOOD = ("x" * 4_000_000).freeze

    # Streams for the rows below.
    module Streams
      # Of a write that was cut off, a part has arrived; the rest is sent by nobody, and what is written next follows it.
      def check_cut_off(reader, finish)
        sent = drained(reader)
        assert_bytes "x" * sent.bytesize, sent
        assert_operator sent.bytesize, :<, FLOOD.bytesize
        finish.call
        assert_equal "end", drained(reader)
      end
    end
    Cell.include Streams

    row "`IO#read(length)`, `IO#gets` of a pipe", :withdrawn do
      reader, writer = pipe
      writer << "abc"
      operation(:io) { reader.read(10) }
      under_way { !reader.wait_readable(0) }
      check do
        writer << "def\n"
        assert_equal "def\n", reader.gets, "the bytes that had been read are gone, as they are with threads"
      end
    end

    row "`IO#readpartial`, `IO#sysread` of a pipe", :withdrawn do
      reader, writer = pipe
      operation(:io) { [true, false].sample ? reader.readpartial(10) : reader.sysread(10) }
      check do
        writer << "abc"
        assert_equal "abc", reader.readpartial(10)
      end
    end

    row "`IO#write` to a pipe", :withdrawn do
      reader, writer = pipe
      operation(:io) { writer.write(FLOOD) }
      check { check_cut_off(reader, -> { writer.write("end") }) }
    end

    row "`IO#syswrite` to a pipe", :withdrawn do
      reader, writer = pipe
      writer.write_nonblock(FLOOD)
      operation(:io) { writer.syswrite("y") }
      check do
        assert_equal "", drained(reader).delete("x")
        assert_equal 3, writer.syswrite("end")
        assert_equal "end", drained(reader)
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

    row "`IO#read` of a terminal", :withdrawn do
      master, slave = PTY.open
      close_finally(master, slave)
      slave.raw!
      operation(:io) { slave.readpartial(10) }
      check do
        master << "abc"
        assert_equal "abc", slave.readpartial(10)
      end
    end

    row "`IO#close`, while a thread uses it", :waited_for do
      reader, = pipe
      using = Thread.new { reader.read(1) }
      using.report_on_exception = false
      Thread.pass until using.stop?
      operation(%i[sleep block], brief: true) { reader.close }
      check do
        assert_predicate reader, :closed?
        assert_instance_of IOError, raised { using.value }
      end
    end

    row "`IO#wait_readable`, `IO#wait`", :withdrawn do
      reader, writer = pipe
      operation(:io) { reader.wait_readable }
      check do
        writer << "abc"
        assert_same reader, reader.wait_readable
        assert_equal "abc", reader.readpartial(10)
      end
    end

    row "`IO.select`", :withdrawn do
      reader, writer = pipe
      operation(:select) { IO.select([reader], nil, nil) }
      check do
        writer << "abc"
        assert_equal [[reader], [], []], IO.select([reader], nil, nil)
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

    row "`IO.copy_stream` with a socket or a pipe", :withdrawn do
      reader, writer = pipe
      path = "#{folder}/copy"
      writer << "abc"
      operation(:io) { IO.copy_stream(reader, path) }
      under_way { !reader.wait_readable(0) }
      check do
        writer << "def"
        assert_equal "def", reader.readpartial(10)
        assert_equal "abc", File.read(path)
      end
    end
  end
end
