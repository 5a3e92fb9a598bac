# frozen_string_literal: true

require "socket"
require "stringio"

# IO.copy_stream in its combinations: each kind of end has a way of its own
# through the kernel (copy_file_range, sendfile, splice, read and write).
WhatBlocks::Catalogue.define "IO.copy_stream" do
  big = 3_000_000

  waits("IO.copy_stream", "pipe to pipe") do
    reader = fed("abc")
    _sink, writer = IO.pipe
    measure(3) { IO.copy_stream(reader, writer) }
  end
  waits("IO.copy_stream", "pipe to full pipe") do
    reader, writer = IO.pipe
    writer << "abc"
    writer.close
    full = clogged_pipe
    measure(3) { IO.copy_stream(reader, full) }
  end
  waits("IO.copy_stream", "pipe to file") do
    reader = fed("abc")
    path = file
    measure(3) { IO.copy_stream(reader, path) }
  end
  waits("IO.copy_stream", "pipe to socket") do
    reader = fed("abc")
    ours, _theirs = UNIXSocket.pair
    measure(3) { IO.copy_stream(reader, ours) }
  end
  waits("IO.copy_stream", "pipe to StringIO") do
    reader = fed("abc")
    measure(3) { IO.copy_stream(reader, StringIO.new) }
  end
  waits("IO.copy_stream", "StringIO to full pipe") do
    full = clogged_pipe
    measure(3) { IO.copy_stream(StringIO.new("abc"), full) }
  end
  waits("IO.copy_stream", "file to full pipe") do
    full = clogged_pipe
    path = file("abc")
    measure(3) { IO.copy_stream(path, full) }
  end
  waits("IO.copy_stream", "file to slow socket") do
    ours, theirs = UNIXSocket.pair
    path = file("x" * big)
    later { theirs.read(big) }
    measure(big) { IO.copy_stream(path, ours) }
  end
  waits("IO.copy_stream", "file to slow TCP socket, some bytes") do
    ours, theirs = tcp_pair
    ours.setsockopt(:SOCKET, :SNDBUF, 65_536)
    theirs.setsockopt(:SOCKET, :RCVBUF, 65_536)
    path = file("x" * big * 4)
    later { theirs.read(big * 3) }
    measure(big * 3) { IO.copy_stream(path, ours, big * 3, 10) }
  end
  waits("IO.copy_stream", "socket to file") do
    ours, theirs = UNIXSocket.pair
    later do
      theirs << "abc"
      theirs.close
    end
    path = file
    measure(3) { IO.copy_stream(ours, path) }
  end
  waits("IO.copy_stream", "socket to socket") do
    ours, theirs = UNIXSocket.pair
    later { theirs.close }
    other, _end = UNIXSocket.pair
    measure(0) { IO.copy_stream(ours, other) }
  end
  quick("IO.copy_stream", "file to file") do
    path = file("abc")
    measure(3) { IO.copy_stream(path, "#{path}.copy") }
  end
end
