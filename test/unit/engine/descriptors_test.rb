# frozen_string_literal: true

# engines: every - each back end registers descriptors in its own way

require "test_helper"
require "support/loops"
require "support/virtual_time"

# Descriptors that are closed while a task waits for them, numbers reused for other files, several waiters of one
# descriptor. Numbers reused while the file is open elsewhere: test/integration/engine/stale_descriptors_test.rb.
class DescriptorsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  WAITS = {
    "read" => ->(io, _) { io.read(1) },
    "readpartial" => ->(io, _) { io.readpartial(1) },
    "gets" => ->(io, _) { io.gets },
    "wait_readable" => ->(io, _) { io.wait_readable },
    "select" => ->(io, _) { IO.select([io]) },
    "write" => ->(_, io) { io.write("x" * 4_000_000) },
    "io_wait" => ->(io, _) { Fiber.scheduler.io_wait(io, IO::READABLE, nil) },
    "a timed wait" => ->(io, _) { io.wait_readable(600) }
  }.freeze

  WAITS.each do |name, wait|
    define_method("test_closing_ends_#{name.tr(" ", "_")}") do
      in_loop do
        a, b = UNIXSocket.pair
        waiter = NB.spawn { wait.call(a, a) }
        pass_until("the wait") { waiter.waits_for && waiter.state == :running }
        a.close
        assert_closed_error outcome(waiter)
        b.close
      end
    end

    define_method("test_closing_from_another_thread_ends_#{name.tr(" ", "_")}") do
      in_loop do
        a, b = UNIXSocket.pair
        waiter = NB.spawn { wait.call(a, a) }
        pass_until("the wait") { waiter.waits_for && waiter.state == :running }
        closer = Thread.new { a.close }
        assert_closed_error outcome(waiter)
        closer.join
        b.close
      end
    end
  end

  def test_closing_ends_accept
    in_loop do
      server = TCPServer.new("127.0.0.1", 0)
      waiter = NB.spawn { server.accept }
      pass_until("the wait") { waiter.waits_for && waiter.state == :running }
      server.close
      assert_closed_error outcome(waiter)
    end
  end

  # A pipe's two ends are one IO object with two descriptors.
  def test_closing_a_popen_ends_its_writer_too
    in_loop do
      io = IO.popen("sleep 600", "r+")
      pid = io.pid
      reader = NB.spawn { io.read }
      writer = NB.spawn { io.write("x" * 4_000_000) }
      pass_until("the waits") { [reader, writer].all? { |task| task.waits_for && task.state == :running } }
      Process.kill(:KILL, pid)
      io.close
      assert_closed_error outcome(reader)
      assert_closed_error outcome(writer), Errno::EPIPE
    end
  end

  def test_closing_ends_all_waits_in_both_directions
    in_loop do
      a, b = UNIXSocket.pair
      fill(a)
      readers = Array.new(10) { NB.spawn { a.wait_readable } }
      writers = Array.new(10) { NB.spawn { a.wait_writable } }
      pass_until("the waits") { (readers + writers).all? { |task| task.waits_for && task.state == :running } }
      a.close
      (readers + writers).each { |task| assert_closed_error outcome(task) }
      b.close
    end
  end

  def test_an_event_wakes_its_waiters_and_no_others
    in_loop do
      a, b = UNIXSocket.pair
      fill(a)
      readers = Array.new(20) { NB.spawn { a.wait_readable(10) } }
      writers = Array.new(20) { NB.spawn { a.wait_writable(10) } }
      pass_until("the waits") { (readers + writers).all? { |task| task.waits_for && task.state == :running } }
      b.write("now")
      readers.each { |task| assert_same a, task.value }
      assert writers.all?(&:alive?), "a readable socket woke the waiters for writability"
      b.readpartial(1 << 20) while b.wait_readable(0)
      writers.each { |task| assert_same a, task.value }
      [a, b].each(&:close)
    end
  end

  def test_two_tasks_talk_both_ways_over_one_descriptor
    in_loop do
      a, b = UNIXSocket.pair
      size = 2_000_000
      tasks = [a, b].flat_map { |io|
        [NB.spawn { io.write("x" * size) }, NB.spawn { io.read(size).bytesize }]
      }
      assert_equal [size] * 4, tasks.map(&:value)
      [a, b].each(&:close)
    end
  end

  # The new descriptor has a number whose last waiter has just left, with its registration still in place.
  def test_a_reused_number_is_a_new_descriptor
    in_loop do
      200.times do
        a, b = UNIXSocket.pair
        first = NB.spawn { a.readpartial(1) }
        NB.pass
        b.write("1")
        assert_equal "1", first.value
        [a, b].each(&:close)
        r, w = IO.pipe
        second = NB.spawn { r.readpartial(1) }
        NB.pass
        w.write("2")
        assert_equal "2", second.value
        [r, w].each(&:close)
      end
    end
  end

  # IO#reopen: the same object, the same number, another file.
  def test_reopen
    in_loop do
      r1, w1 = IO.pipe
      r2, w2 = IO.pipe
      task = NB.spawn { r1.readpartial(1) }
      NB.pass
      w1.write("a")
      assert_equal "a", task.value
      kept = r1.dup
      r1.reopen(r2)
      w1.write("ghost")
      task = NB.spawn { r1.readpartial(1) }
      NB.pass
      assert_nil task.join(5), "it woke for its former file"
      w2.write("b")
      assert_equal "b", task.value
      [r1, w1, r2, w2, kept].each(&:close)
    end
  end

  # R11 of the runtime's review: the read never ended.
  def test_a_read_of_a_descriptor_that_is_reopened_ends
    in_loop do |scope|
      a, b = IO.pipe
      c, d = IO.pipe
      reader = scope.spawn { a.read(1) }
      NB.pass until reader.state == :running && reader.waits_for
      d << "c"
      a.reopen(c)
      assert_kind_of IOError, outcome(reader)
      assert_equal "c", a.read(1)
      [a, b, c, d].each(&:close)
    end
  end

  def test_numbers_far_beyond_the_first_table
    in_loop do
      pairs = Array.new(400) { IO.pipe }
      readers = pairs.map { |r, _| NB.spawn { r.readpartial(1) } }
      NB.pass
      pairs.reverse_each { |_, w| w.write("x") }
      assert_equal ["x"] * 400, readers.map(&:value)
      pairs.flatten.each(&:close)
    end
  end

  def test_hang_up_ends_reads_and_writes
    in_loop do
      a, b = UNIXSocket.pair
      reader = NB.spawn { a.read }
      writer = NB.spawn { a.write("x" * 4_000_000) }
      pass_until("the waits") { [reader, writer].all? { |task| task.waits_for && task.state == :running } }
      b.close
      assert_kind_of Errno::EPIPE, outcome(writer)
      assert_kind_of Errno::ECONNRESET, outcome(reader) # unread input is lost
      a.close
    end
  end

  def test_a_bad_number_is_an_error_not_a_hang
    in_loop do
      r, w = IO.pipe
      alias_of_r = IO.for_fd(r.fileno, autoclose: false)
      r.close
      assert_kind_of SystemCallError, outcome(NB.spawn { alias_of_r.wait_readable })
      assert_kind_of SystemCallError, outcome(NB.spawn { IO.select([alias_of_r]) })
      w.close
    end
  end

  private

  def assert_closed_error(error, *others)
    assert_includes [IOError, *others], error.class, "got #{error.inspect}"
    assert_match(/closed/, error.message) if error.instance_of?(IOError)
  end

  def fill(socket)
    nil until socket.write_nonblock("x" * 65_536, exception: false) == :wait_writable
  end
end
