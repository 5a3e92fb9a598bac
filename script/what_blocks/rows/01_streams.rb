# frozen_string_literal: true

require "io/wait"
require "socket"

# Reading and writing pipes, and the standard streams.
WhatBlocks::Catalogue.define "Pipes and streams" do
  wait = WhatBlocks::Stage::WAIT

  quick("IO.pipe") { measure(Array) { IO.pipe } }
  waits("IO#read", "empty pipe") { measure("abc", fed("abc")) { |reader| reader.read } }
  waits("IO#gets", "empty pipe") { measure("abc\n", fed("abc\n")) { |reader| reader.gets } }
  waits("IO#each_line", "empty pipe") { measure(%W[a\n b\n], fed("a\nb\n")) { |reader| reader.each_line.to_a } }
  waits("IO#readline", "empty pipe") { measure("abc\n", fed("abc\n")) { |reader| reader.readline } }
  waits("IO#readlines", "empty pipe") { measure(%W[a\n b\n], fed("a\nb\n")) { |reader| reader.readlines } }
  waits("IO#getc", "empty pipe") { measure("a", fed("a")) { |reader| reader.getc } }
  waits("IO#readpartial", "empty pipe") { measure("abc", fed("abc")) { |reader| reader.readpartial(10) } }
  waits("IO#getbyte", "empty pipe") { measure(97, fed("a")) { |reader| reader.getbyte } }
  waits("IO#eof?", "empty pipe") { measure(true, fed("")) { |reader| reader.eof? } }
  waits("IO#sysread", "empty pipe") { measure("abc", fed("abc")) { |reader| reader.sysread(10) } }
  quick("IO#read_nonblock", "empty pipe") do
    reader, _writer = IO.pipe
    measure(:wait_readable) { reader.read_nonblock(1, exception: false) }
  end
  waits("IO#read", "pipe, IO#timeout passes") do
    reader, _writer = IO.pipe
    reader.timeout = wait
    measure(IO::TimeoutError) { raised { reader.read } }
  end
  waits("IO#read", "pipe closed by another fiber") do
    reader, _writer = IO.pipe
    Fiber.schedule do
      pause
      reader.close
    end
    measure(IOError) { raised { reader.read } }
  end

  waits("IO#write", "full pipe") { measure(9000, clogged_pipe) { |writer| writer.write("x" * 9000) } }
  waits("IO#write", "more than a pipe holds") do
    reader, writer = IO.pipe
    later { reader.read }
    measure(200_000) { writer.write("x" * 200_000) }
  end
  waits("IO#write", "several strings, full pipe") { measure(4, clogged_pipe) { |writer| writer.write("ab", "cd") } }
  waits("IO#puts", "full pipe") { measure(nil, clogged_pipe) { |writer| writer.puts("abc") } }
  waits("IO#print", "full pipe") { measure(nil, clogged_pipe) { |writer| writer.print("abc") } }
  waits("IO#<<", "full pipe") { measure(IO, clogged_pipe) { |writer| writer << "abc" } }
  waits("IO#flush", "full pipe, buffered text") do
    writer = clogged_pipe
    writer.sync = false
    writer.write("abc")
    measure(writer) { writer.flush }
  end
  waits("IO#close", "full pipe, buffered text") do
    writer = clogged_pipe
    writer.sync = false
    writer.write("abc")
    measure(nil) { writer.close }
  end
  waits("IO#syswrite", "full pipe") { measure(3, clogged_pipe) { |writer| writer.syswrite("abc") } }
  quick("IO#write_nonblock", "full pipe") do
    _reader, writer = IO.pipe
    clog(writer)
    measure(:wait_writable) { writer.write_nonblock("x", exception: false) }
  end
  quick("IO#close", "pipe") { measure(nil, *IO.pipe) { |reader, _writer| reader.close } }

  waits("IO.select", "readable") do
    reader = fed("a")
    measure([[reader], [], []]) { IO.select([reader]) }
  end
  waits("IO.select", "writable") do
    writer = clogged_pipe
    measure([[], [writer], []]) { IO.select(nil, [writer]) }
  end
  waits("IO.select", "several, with a timeout") do
    silent = Array.new(3) { IO.pipe }
    reader = fed("a")
    measure([[reader], [], []]) { IO.select([*silent.map(&:first), reader], [], [], 5) }
  end
  waits("IO.select", "timeout passes") do
    reader, _writer = IO.pipe
    measure(nil) { IO.select([reader], nil, nil, wait) }
  end
  waits("IO.select", "no streams, only a timeout") { measure(nil) { IO.select(nil, nil, nil, wait) } }
  waits("IO#wait_readable", "empty pipe") { measure(IO, fed("a")) { |reader| reader.wait_readable } }
  waits("IO#wait_readable", "timeout passes") do
    reader, _writer = IO.pipe
    measure(nil) { reader.wait_readable(wait) }
  end
  waits("IO#wait_writable", "full pipe") { measure(IO, clogged_pipe) { |writer| writer.wait_writable } }
  waits("IO#wait_priority", "timeout passes") do
    ours, _theirs = UNIXSocket.pair
    measure(nil) { ours.wait_priority(wait) }
  end
  waits("IO#wait", "events and timeout") do
    reader = fed("a")
    measure(IO::READABLE) { reader.wait(IO::READABLE, 5) }
  end

  waits("$stdin.gets", "inherited pipe") do
    $stdin.reopen(inherited(fed("abc\n")))
    measure("abc\n") { $stdin.gets }
  end
  waits("Kernel#gets", "inherited pipe") do
    $stdin.reopen(inherited(fed("abc\n")))
    ARGV.clear
    measure("abc\n") { gets }
  end
  waits("ARGF.read", "inherited pipe") do
    $stdin.reopen(inherited(fed("abc\n")))
    ARGV.clear
    measure("abc\n") { ARGF.read }
  end
  waits("$stdin.read", "socket") do
    ours, theirs = UNIXSocket.pair
    later { theirs.close }
    $stdin.reopen(inherited(ours))
    measure("") { $stdin.read }
  end
  waits("$stdout.write", "inherited pipe, full") do
    $stdout.reopen(inherited(clogged_pipe))
    $stdout.sync = true
    measure(3) { $stdout.write("abc") }
  end
  waits("Kernel#puts", "inherited pipe, full") do
    $stdout.reopen(inherited(clogged_pipe))
    $stdout.sync = true
    measure(nil) { puts "abc" }
  end
  waits("Kernel#warn", "inherited pipe, full") do
    $stderr.reopen(inherited(clogged_pipe))
    measure(nil) { warn "abc" }
  end
  waits("IO#write", "inherited pipe, more than it holds") do
    reader, writer = IO.pipe
    later { reader.read }
    inherited(writer)
    measure(200_000) { writer.write("x" * 200_000) }
  end

  waits("Marshal.load", "empty pipe") do
    reader = fed(Marshal.dump([1, "a"]))
    measure([1, "a"]) { Marshal.load(reader) }
  end
  waits("Marshal.dump", "full pipe") { measure(IO, clogged_pipe) { |writer| Marshal.dump([1, "a"], writer) } }
  waits("IO::Buffer#read", "empty pipe") do
    reader = fed("abc")
    measure(3) { IO::Buffer.new(16).read(reader, 3) }
  end
  waits("IO::Buffer#write", "full pipe") do
    writer = clogged_pipe
    measure(3) { IO::Buffer.for("abc").write(writer, 3) }
  end
  quick("IO#reopen") do
    reader, _writer = IO.pipe
    measure(reader) { reader.reopen(IO.pipe.first) }
  end
  quick("IO#ioctl", "FIONREAD") do
    reader, writer = IO.pipe
    writer << "abc"
    count = [0].pack("i")
    measure(0) { reader.ioctl(0x541B, count) }
  end
end
