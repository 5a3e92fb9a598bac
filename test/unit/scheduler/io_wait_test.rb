# frozen_string_literal: true

# engines: every - the back end watches the descriptors

require "test_helper"
require "support/loops"
require "support/virtual_time"

# io_wait, called directly and through IO#wait_*.
class HooksIoWaitTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def setup
    @a, @b = UNIXSocket.pair
  end

  def teardown
    [@a, @b].each(&:close)
  end

  def test_ready_at_once
    standalone do |scheduler|
      @b.write("x")
      assert_equal IO::READABLE, scheduler.io_wait(@a, IO::READABLE, nil)
      assert_equal IO::WRITABLE, scheduler.io_wait(@a, IO::WRITABLE, nil)
      assert_equal IO::READABLE | IO::WRITABLE, scheduler.io_wait(@a, IO::READABLE | IO::WRITABLE, nil)
    end
  end

  def test_ready_later
    standalone do |scheduler|
      Fiber.schedule { sleep(1) and @b.write("x") }
      assert_equal IO::READABLE, scheduler.io_wait(@a, IO::READABLE, 10)
      assert_equal IO::READABLE, scheduler.io_wait(@a, IO::READABLE, 10), "level-triggered"
    end
  end

  def test_only_requested_events_are_returned
    standalone do |scheduler|
      @b.write("x")
      assert_equal IO::WRITABLE, scheduler.io_wait(@a, IO::WRITABLE, 1)
      assert_equal false, scheduler.io_wait(@a, IO::PRIORITY, 1)
    end
  end

  def test_timeouts
    standalone do |scheduler|
      [5, 0, 0.01].each { |limit| assert_equal(limit, seconds_of { assert_equal false, scheduler.io_wait(@a, IO::READABLE, limit) }) }
      assert_raises(ArgumentError) { scheduler.io_wait(@a, IO::READABLE, -1) }
      assert_raises(TypeError) { scheduler.io_wait(@a, IO::READABLE, "soon") }
    end
  end

  def test_a_timeout_of_zero_polls_without_waiting
    standalone do |scheduler|
      @b.write("x")
      assert_equal IO::READABLE, scheduler.io_wait(@a, IO::READABLE, 0)
    end
  end

  def test_other_fibers_run_meanwhile
    ticks = 0
    standalone do |scheduler|
      Fiber.schedule do
        20.times { sleep(0.1) and ticks += 1 }
        @b.write("x")
      end
      assert_equal IO::READABLE, scheduler.io_wait(@a, IO::READABLE, 15)
    end
    assert_equal 20, ticks
  end

  def test_regular_files_are_always_ready
    standalone do |scheduler|
      File.open(__FILE__) do |file|
        assert_equal IO::READABLE, scheduler.io_wait(file, IO::READABLE, nil)
        assert_equal IO::READABLE | IO::WRITABLE, scheduler.io_wait(file, IO::READABLE | IO::WRITABLE, nil)
      end
    end
  end

  def test_a_closed_stream
    standalone do |scheduler|
      r, w = IO.pipe
      w.close
      assert_equal IO::READABLE, scheduler.io_wait(r, IO::READABLE, nil), "end of file is readable"
      r.close
      assert_raises(IOError) { scheduler.io_wait(r, IO::READABLE, nil) }
    end
  end

  def test_a_broken_pipe_is_writable
    standalone do |scheduler|
      r, w = IO.pipe
      r.close
      assert_equal IO::WRITABLE, scheduler.io_wait(w, IO::WRITABLE, 5)
      w.close
    end
  end

  def test_urgent_data
    in_loop do
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      peer = server.accept
      waiter = NB.spawn { Fiber.scheduler.io_wait(peer, IO::PRIORITY, 10) }
      NB.pass
      urgent = "!"
      client.send(urgent, Socket::MSG_OOB)
      assert_equal IO::PRIORITY, waiter.value
      assert_same peer, peer.wait_priority(5)
      [server, client, peer].each(&:close)
    end
  end

  def test_core_methods
    in_loop do
      assert_nil @a.wait_readable(1)
      assert_nil @a.wait(IO::READABLE, 1)
      assert_same @a, @a.wait_writable(1)
      NB.spawn { @b.write("x") }
      assert_same @a, @a.wait_readable
      assert_equal IO::READABLE, @a.wait(IO::READABLE, 1)
    end
  end

  # C extensions wait on temporary IO objects of a foreign descriptor, several at a time.
  def test_several_objects_of_one_descriptor
    in_loop do
      others = Array.new(5) { IO.for_fd(@a.fileno, autoclose: false) }
      waiters = others.map { |io| NB.spawn { io.wait_readable(5) } }
      writer = NB.spawn { IO.for_fd(@a.fileno, autoclose: false).wait_writable(5) }
      NB.pass
      assert writer.value
      @b.write("x")
      assert_equal others, waiters.map(&:value)
    end
  end

  def test_from_another_thread_it_waits_there
    standalone do |scheduler|
      thread = Thread.new { scheduler.io_wait(@a, IO::READABLE, 5) }
      wait_until("its wait") { thread.stop? }
      @b.write("x")
      assert_equal IO::READABLE, thread.value
      thread = Thread.new { scheduler.io_wait(@b, IO::READABLE, 0.02) } # real time: it is no fiber of the loop
      assert_equal false, thread.value
    end
  end

  def test_no_fiber_is_woken_without_an_event
    in_loop do
      woken = 0
      waiters = Array.new(10) { NB.spawn { @a.wait_readable(30) and woken += 1 } }
      100.times do
        r, w = IO.pipe
        reader = NB.spawn { r.readpartial(1) }
        NB.pass
        w.write("x")
        reader.value
        [r, w].each(&:close)
      end
      waiters.each { |task| assert_nil task.value }
      assert_equal [0, 30.0], [woken, clock.elapsed]
    end
  end

  def test_fiber_raise_and_kill_end_a_wait
    standalone do
      seen = nil
      raised = Fiber.schedule do
        @a.wait_readable
      rescue ArgumentError => error
        seen = error.message
      end
      raised.raise(ArgumentError, "by hand")
      assert_equal "by hand", seen
      ensured = false
      killed = Fiber.schedule do
        @a.wait_readable
      ensure
        ensured = true
      end
      killed.kill
      assert ensured
      refute_predicate killed, :alive?
      @b.write("x")
      assert_same @a, @a.wait_readable(5), "the registration of the killed is no hindrance"
    end
  end

  def test_io_close_closes_and_wakes
    in_loop do
      r, w = IO.pipe
      waiter = NB.spawn { r.wait_readable }
      NB.pass
      r.autoclose = false
      assert_equal true, Fiber.scheduler.io_close(r.fileno)
      assert_kind_of IOError, outcome(waiter)
      assert_raises(Errno::EBADF) { Fiber.scheduler.io_close(r.fileno) }
      w.close
    end
  end

  def test_fiber_interrupt_ends_waits_for_io_only
    in_loop do |scope|
      scheduler = Fiber.scheduler
      waiting = scope.spawn { @a.wait_readable }
      sleeping = scope.spawn { sleep }
      NB.pass
      thread = Thread.new { [waiting, sleeping].map { |task| scheduler.fiber_interrupt(task.fiber, IOError.new("interrupted")) } }
      assert_equal [true, false], thread.value
      assert_equal "interrupted", outcome(waiting).message
      assert_predicate sleeping, :alive?
      assert_equal false, scheduler.fiber_interrupt(waiting.fiber, IOError.new("too late"))
      sleeping.cancel
    end
  end
end
