# frozen_string_literal: true

# engines: every - a registration belongs to the descriptor or to the open file

require "test_helper"
require "support/loops"
require "fcntl"
require "io/console"
require "io/nonblock"
require "tempfile"

# Descriptors shared with other processes (0, 1, 2, terminals, inherited ones) keep their flags: an O_NONBLOCK set here
# would be set for the shell too.
class IoInheritedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # Uses its standard streams in tasks, and prints which of them became nonblocking.
  PROGRAM = <<~'RUBY'
    require "neverblock"
    require "fcntl"
    flags = -> { [0, 1, 2].map { |fd| IO.for_fd(fd, autoclose: false).fcntl(Fcntl::F_GETFL) & File::NONBLOCK } }
    NeverBlock.run do
      line = NB.spawn { $stdin.gets.tap { $stdout.syswrite("got a line\n") } }
      rest = NB.spawn { line.join and $stdin.readpartial(100) }
      NB.spawn { line.join and 10.times { Queue.new.pop(timeout: 0.002) } and $stdout.syswrite("ticking while it waits\n") }
      writers = [$stdout, $stderr].map { |io| NB.spawn { 5.times { io.write("w" * 10_000 + "\n") and io.flush } } }
      [line, rest, *writers].each(&:join)
      IO.select([$stdin], [$stdout], nil, 0.01)
      system("true")
      puts "read #{line.value.inspect} #{rest.value.inspect}", "nonblocking #{flags.call}"
    end
  RUBY

  def test_pipes
    with_program do |file|
      ours, theirs = IO.pipe, IO.pipe
      errors = IO.pipe
      pid = spawn(*command(file), in: ours[0], out: theirs[1], err: errors[1])
      [ours[0], theirs[1], errors[1]].each(&:close)
      out, err = +"", Thread.new { errors[0].read }
      reader = Thread.new { out << theirs[0].readpartial(65_536) until theirs[0].eof? }
      ours[1].write("first\n")
      wait_until("the first line's arrival and the others' turns") { out.include?("got a line") && out.include?("ticking while it waits") }
      ours[1].write("second")
      ours[1].close
      assert_predicate Process.wait2(pid).last, :success?, err.value
      reader.join
      assert_equal ['read "first\n" "second"', "nonblocking [0, 0, 0]"], out.lines.last(2).map(&:chomp)
      [theirs[0], errors[0]].each(&:close)
    end
  end

  def test_terminals
    require "pty"
    with_program do |file|
      PTY.open do |master, slave|
        slave.raw!
        pid = spawn(*command(file), in: slave, out: slave, err: slave)
        seen = +""
        reader = Thread.new { loop { seen << master.readpartial(65_536) } }
        reader.report_on_exception = false
        master.write("first\n")
        wait_until("the first line's arrival and the others' turns") { seen.include?("got a line") && seen.include?("ticking while it waits") }
        master.write("second")
        assert_predicate Process.wait2(pid).last, :success?, seen[-2000..]
        wait_until("the last line") { seen.include?("nonblocking") && seen.end_with?("\n") }
        assert_equal ['read "first\n" "second"', "nonblocking [0, 0, 0]"], seen.lines.last(2).map(&:chomp)
        assert_equal 0, slave.fcntl(Fcntl::F_GETFL) & File::NONBLOCK
        reader.kill.join
      end
    end
  end

  def test_a_descriptor_that_a_parent_left_open
    reader, writer = IO.pipe
    [reader, writer].each { |io| io.nonblock = false }
    code = <<~RUBY
      require "neverblock"
      io = IO.for_fd(#{reader.fileno}, "r")
      NeverBlock.run { NB.spawn { print io.readpartial(10) } }
    RUBY
    out = IO.pipe
    pid = spawn(*BARE, *libraries, "-e", code, reader => reader, :out => out[1])
    out[1].close
    writer.write("inherited")
    assert_predicate Process.wait2(pid).last, :success?
    assert_equal "inherited", out[0].read
    assert_equal 0, reader.fcntl(Fcntl::F_GETFL) & File::NONBLOCK
    [reader, writer, out[0]].each(&:close)
  end

  private

  def command(file) = [*BARE, *libraries, file.path]

  def libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(NeverBlockTest::ROOT, "lib")].flat_map { |folder| ["-I", folder] }

  def with_program
    Tempfile.create(["inherited", ".rb"]) do |file|
      file.write(PROGRAM)
      file.close
      Timeout.timeout(30) { yield file }
    end
  end
end
