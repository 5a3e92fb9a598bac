# frozen_string_literal: true

# engines: every - the back end watches the descriptors

require "test_helper"
require "support/loops"
require "support/virtual_time"

# IO#timeout, as without a scheduler: every wait for the stream raises IO::TimeoutError.
class IoTimeoutTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  READS = {
    read: ->(io) { io.read }, gets: ->(io) { io.gets }, readpartial: ->(io) { io.readpartial(1) }, getc: ->(io) { io.getc },
    sysread: ->(io) { io.sysread(1) }
  }.freeze

  READS.each do |name, read|
    define_method("test_#{name}_times_out") do
      [UNIXSocket.pair, IO.pipe].each do |a, b|
        in_loop do
          a.timeout = 2
          ticks = 0
          ticker = NB.spawn { loop { sleep(0.1) and ticks += 1 } }
          NB.pass # its first sleep has begun, and ends first
          assert_raises(IO::TimeoutError) { read.call(a) }
          assert_operator ticks, :>, 0
          ticker.cancel
        end
        [a, b].each(&:close)
      end
    end
  end

  def test_write_times_out
    in_loop do
      IO.pipe do |_r, w|
        w.timeout = 2
        assert_raises(IO::TimeoutError) { w.write("x" * 1_000_000) }
      end
    end
  end

  def test_accept_times_out
    in_loop do
      TCPServer.open("127.0.0.1", 0) do |server|
        server.timeout = 2
        assert_raises(IO::TimeoutError) { server.accept }
      end
    end
  end

  def test_input_in_time
    in_loop do
      IO.pipe do |r, w|
        r.timeout = 10
        NB.spawn { 3.times { sleep(0.2) and w.puts("line") } }
        assert_equal ["line\n"] * 3, Array.new(3) { r.gets }
      end
    end
  end

  def test_explicit_timeouts_return_nil
    in_loop do
      IO.pipe do |r, _w|
        r.timeout = 10
        assert_nil r.wait_readable(1)
        assert_nil IO.select([r], nil, nil, 1)
      end
    end
  end

  def test_the_stream_is_usable_afterwards
    in_loop do
      IO.pipe do |r, w|
        r.timeout = 1
        3.times { assert_raises(IO::TimeoutError) { r.readpartial(1) } }
        w.write("late")
        assert_equal "late", r.readpartial(10)
        r.timeout = nil
        reader = NB.spawn { r.readpartial(1) }
        assert_nil reader.join(3)
        w.write("x")
        assert_equal "x", reader.value
      end
    end
  end
end
