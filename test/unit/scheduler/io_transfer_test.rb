# frozen_string_literal: true

# engines: every - io_uring reads and writes files, the others use threads

require "test_helper"
require "support/loops"
require "support/virtual_time"
require "tempfile"

# Direct calls of io_read, io_write, io_pread and io_pwrite, in both of Ruby's interfaces: up to 4.0 (io, buffer,
# length, offset), where length is a minimum to wait for; 4.1 (io, buffer, offset, length), one transfer, -EAGAIN.
class TransferHooksTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  EAGAIN = -Errno::EAGAIN::Errno

  def setup
    @experimental, Warning[:experimental] = Warning[:experimental], false # IO::Buffer
    @r, @w = IO.pipe
    @buffer = IO::Buffer.new(16)
  end

  def teardown
    Warning[:experimental] = @experimental
    [@r, @w].each(&:close)
  end

  # ---- up to 4.0 ----
  def test_v3_read_takes_the_available_bytes
    standalone do |s|
      @w.write("hello")
      assert_equal 5, s.io_read_v3(@r, @buffer, 0, 0)
      assert_equal "hello", @buffer.get_string(0, 5)
    end
  end

  def test_v3_read_waits_for_the_first_byte
    standalone do |s|
      Fiber.schedule { sleep(1) and @w.write("late") }
      assert_equal 4, s.io_read_v3(@r, @buffer, 0, 0)
    end
  end

  def test_v3_read_waits_for_the_given_length
    standalone do |s|
      Fiber.schedule { %w[ab cd ef].each { |part| sleep(0.2) and @w.write(part) } }
      assert_equal 6, s.io_read_v3(@r, @buffer, 5, 0)
      assert_equal "abcdef", @buffer.get_string(0, 6)
    end
  end

  def test_v3_read_at_an_offset_of_the_buffer
    standalone do |s|
      @buffer.set_string("0123456789abcdef")
      @w.write("XY")
      assert_equal 2, s.io_read_v3(@r, @buffer, 1, 4)
      assert_equal "0123XY6789abcdef", @buffer.get_string
    end
  end

  def test_v3_read_never_exceeds_the_buffer
    standalone do |s|
      @w.write("x" * 100)
      assert_equal 16, s.io_read_v3(@r, @buffer, 0, 0)
      assert_equal 6, s.io_read_v3(@r, @buffer, 0, 10)
      assert_equal 0, s.io_read_v3(@r, @buffer, 0, 16)
      assert_equal 0, s.io_read_v3(@r, @buffer, 0, 17)
    end
  end

  def test_v3_read_at_the_end
    standalone do |s|
      @w.write("ab")
      @w.close
      assert_equal 2, s.io_read_v3(@r, @buffer, 10, 0)
      assert_equal 0, s.io_read_v3(@r, @buffer, 10, 0)
    end
  end

  def test_v3_write_writes_the_whole_buffer
    standalone do |s|
      big = IO::Buffer.for("x" * 1_000_000)
      got = 0
      Fiber.schedule { got += @r.readpartial(65_536).bytesize while got < 1_000_000 }
      assert_equal 1_000_000, s.io_write_v3(@w, big, 1_000_000, 0)
      pass_until("all") { got == 1_000_000 }
      assert_equal 4, s.io_write_v3(@w, IO::Buffer.for("0123456789"), 4, 6)
      assert_equal "6789", @r.readpartial(100)
    end
  end

  def test_v3_write_with_length_zero_is_one_transfer
    standalone do |s|
      written = s.io_write_v3(@w, IO::Buffer.for("x" * 1_000_000), 0, 0)
      assert_operator written, :>, 0
      assert_operator written, :<, 1_000_000
    end
  end

  def test_v3_errors_are_negative_numbers
    standalone do |s|
      @r.close
      assert_equal(-Errno::EPIPE::Errno, s.io_write_v3(@w, IO::Buffer.for("x"), 1, 0))
      assert_equal(-Errno::ESPIPE::Errno, s.io_pwrite_v3(@w, IO::Buffer.for("x"), 5, 1, 0))
    end
  end

  def test_v3_positions
    Tempfile.create("position") do |file|
      standalone do |s|
        assert_equal 10, s.io_pwrite_v3(file, IO::Buffer.for("0123456789"), 0, 10, 0)
        assert_equal 3, s.io_pwrite_v3(file, IO::Buffer.for("abcdef"), 4, 3, 3)
        assert_equal "0123def789", File.read(file.path)
        assert_equal 6, s.io_pread_v3(file, @buffer, 4, 6, 2)
        assert_equal "def789", @buffer.get_string(2, 6)
        assert_equal 0, s.io_pread_v3(file, @buffer, 100, 1, 0)
        assert_equal 0, file.pos
      end
    end
  end

  # ---- 4.1 ----
  def test_v4_read_is_one_transfer_that_does_not_wait
    standalone do |s|
      assert_equal EAGAIN, s.io_read_v4(@r, @buffer, 0, 16)
      @w.write("0123456789")
      assert_equal 4, s.io_read_v4(@r, @buffer, 2, 4), "at most the length"
      assert_equal "0123", @buffer.get_string(2, 4)
      assert_equal 6, s.io_read_v4(@r, @buffer, 0, 16), "what there is"
      assert_equal 0, s.io_read_v4(@r, @buffer, 0, 0), "a length of nothing does nothing"
      @w.close
      assert_equal 0, s.io_read_v4(@r, @buffer, 0, 16), "the end"
    end
  end

  def test_v4_length_beyond_the_buffer
    standalone do |s|
      @w.write("x" * 100)
      assert_equal 16, s.io_read_v4(@r, @buffer, 0, 1000)
      assert_equal 1, s.io_read_v4(@r, @buffer, 15, 1000)
    end
  end

  def test_v4_write_is_one_transfer_that_does_not_wait
    standalone do |s|
      data = IO::Buffer.for("x" * 1_000_000)
      written = s.io_write_v4(@w, data, 0, 1_000_000)
      assert_operator written, :<, 1_000_000
      assert_equal EAGAIN, s.io_write_v4(@w, data, 0, 1_000_000)
      assert_equal 0, s.io_write_v4(@w, data, 0, 0)
      @r.readpartial(1 << 20)
      assert_equal 3, s.io_write_v4(@w, IO::Buffer.for("abcdef"), 3, 3)
      assert_equal "def", @r.readpartial(1 << 20)[-3..]
    end
  end

  def test_v4_positions
    Tempfile.create("position") do |file|
      standalone do |s|
        assert_equal 10, s.io_pwrite_v4(file, IO::Buffer.for("0123456789"), 0, 0, 10)
        assert_equal 3, s.io_pwrite_v4(file, IO::Buffer.for("abcdef"), 4, 3, 3)
        assert_equal 6, s.io_pread_v4(file, @buffer, 4, 2, 6)
        assert_equal "def789", @buffer.get_string(2, 6)
        assert_equal 2, s.io_pread_v4(file, @buffer, 0, 0, 2)
      end
    end
  end

  def test_sockets_in_both_interfaces
    a, b = UNIXSocket.pair
    standalone do |s|
      assert_equal EAGAIN, s.io_read_v4(a, @buffer, 0, 16)
      Fiber.schedule { sleep(0.5) and b.write("socket") }
      assert_equal 6, s.io_read_v3(a, @buffer, 0, 0)
      assert_equal 6, s.io_write_v3(a, @buffer.slice(0, 6), 6, 0)
      assert_equal 6, s.io_read_v4(b, @buffer, 0, 16)
    end
    [a, b].each(&:close)
  end

  def test_the_hooks_match_the_interface_of_this_ruby
    version = (IO::Buffer.const_defined?(:VERSION) && IO::Buffer::VERSION >= 3) ? "v4" : "v3"
    %w[io_read io_write io_pread io_pwrite].each do |hook|
      assert_equal NeverBlock::Scheduler.instance_method("#{hook}_#{version}"), NeverBlock::Scheduler.instance_method(hook)
    end
  end

  def test_a_buffer_that_is_read_only_is_refused
    standalone do |s|
      @w.write("x")
      assert_raises(IO::Buffer::AccessError) { s.io_read_v3(@r, IO::Buffer.for("constant"), 0, 0) }
    end
  end

  # ---- calls by core ----
  def test_core_methods
    in_loop do
      NB.spawn { 5.times { sleep(0.1) and @w.write("line\n") } and @w.write("tail") and @w.close }
      assert_equal "line\n", @r.gets
      assert_equal "li", @r.read(2)
      assert_equal "ne\n", @r.readpartial(3)
      assert_equal "line\n".ord, @r.getbyte
      assert_equal "ine\nline\nline\ntail", @r.read
      assert_nil @r.gets
      assert_equal "", @r.read
      assert_nil @r.read(1)
    end
  end

  def test_sysread_and_syswrite_wait
    in_loop do
      NB.spawn { sleep(1) and @w.syswrite("sys") }
      assert_equal "sys", @r.sysread(10)
      filler = NB.spawn { 40.times { @w.syswrite("x" * 65_536) } }
      total = 0
      total += @r.sysread(65_536).bytesize while filler.alive? || @r.wait_readable(0)
      assert_operator total, :>=, 65_536
    end
  end

  def test_nonblocking_methods_do_not_wait
    in_loop do
      assert_equal :wait_readable, @r.read_nonblock(1, exception: false)
      assert_raises(IO::EAGAINWaitReadable) { @r.read_nonblock(1) }
      @w.write("x")
      assert_equal "x", @r.read_nonblock(10)
      nil until @w.write_nonblock("x" * 65_536, exception: false) == :wait_writable
    end
  end

  def test_a_cancelled_read_leaves_the_stream_usable
    in_loop do
      20.times do
        task = NB.spawn { @r.read(10) }
        NB.pass
        task.cancel
        assert_kind_of NeverBlock::Cancelled, outcome(task)
      end
      @w.write("0123456789")
      assert_equal "0123456789", @r.read(10)
    end
  end

  def test_writers_of_one_stream_do_not_mix
    in_loop do
      lines = %w[a b c d].map { |letter| letter * 100_000 + "\n" }
      tasks = lines.map { |line| NB.spawn { 3.times { @w.write(line) } } }
      NB.spawn { tasks.each(&:join) and @w.close }
      assert_equal lines.tally.transform_values { 3 }, @r.each_line.tally
    end
  end
end
