# frozen_string_literal: true

# engines: every - the loop jumps instead of waiting in the kernel
require "test_helper"
require "net/http"
require "neverblock/server"
require "neverblock/testing"
require "socket"
require "support/loops"

class VirtualClockTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  VirtualClock = NeverBlock::Testing::VirtualClock

  # Each takes its time in a loop: the name, the seconds, the wait.
  WAITS = {
    "sleep" => [3600, -> { sleep 3600 }],
    "Timeout.timeout" => [9, -> { assert_raises(Timeout::Error) { Timeout.timeout(9) { Queue.new.pop } } }],
    "NeverBlock.timeout" => [5, -> { assert_raises(NeverBlock::TimeoutError) { NeverBlock.timeout(5) { sleep } } }],
    "ConditionVariable#wait" => [10, -> { (lock = Mutex.new).synchronize { ConditionVariable.new.wait(lock, 10) } }],
    "Mutex#sleep" => [11, -> { (lock = Mutex.new).synchronize { lock.sleep(11) } }],
    "Queue#pop" => [2, -> { assert_nil Queue.new.pop(timeout: 2) }],
    "Queue#shift" => [3, -> { assert_nil Queue.new.shift(timeout: 3) }],
    "SizedQueue#deq" => [4, -> { assert_nil SizedQueue.new(1).deq(timeout: 4) }],
    "SizedQueue#push" => [6, -> { assert_nil SizedQueue.new(1).push(0).push(1, timeout: 6) }],
    "SizedQueue#enq" => [7, -> { assert_nil SizedQueue.new(1).push(0).enq(1, timeout: 7) }],
    "IO#timeout" => [8, -> { IO.pipe.then { |reader, _| assert_raises(IO::TimeoutError) { (reader.timeout = 8) && reader.read(1) } } }],
    "IO#wait_readable" => [12, -> { IO.pipe.then { |reader, _| assert_nil reader.wait_readable(12) } }],
    "IO.select" => [13, -> { IO.pipe.then { |reader, _| assert_nil IO.select([reader], nil, nil, 13) } }],
    "Net::HTTP" => [30, -> { ask_silent_server(30) }]
  }.freeze

  WAITS.each do |name, (seconds, wait)|
    define_method(:"test_#{name}_takes_virtual_time") do
      real = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      VirtualClock.run do |clock|
        instance_exec(&wait)
        assert_in_delta seconds, clock.elapsed, 1e-5
      end
      assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - real, :<, seconds / 2.0
    end
  end

  def test_time_stands_still_while_code_runs
    VirtualClock.run do |clock|
      100_000.times { |number| number * 2 }
      assert_in_delta 0.0, clock.elapsed
      assert_equal NeverBlock::Clock.nanoseconds, NeverBlock::Clock.nanoseconds
    end
  end

  def test_tasks_run_in_the_order_of_their_times
    order = []
    VirtualClock.run do |clock, scope|
      [3, 1, 2, 1.5].each { |seconds| scope.spawn { sleep(seconds) && order << [seconds, clock.elapsed] } }
    end
    assert_equal [[1, 1.0], [1.5, 1.5], [2, 2.0], [3, 3.0]], order
  end

  def test_both_ends_of_a_pipe_or_socket_in_this_process_let_time_jump
    pairs = {pipe: -> { IO.pipe }, unix: -> { UNIXSocket.pair }, tcp: -> { tcp_pair }, tcp6: -> { tcp_pair("::1") }}
    pairs.each do |kind, pair|
      elapsed = VirtualClock.run do |clock, scope|
        reader, writer = pair.call
        scope.spawn { sleep(50) && writer.write("x") }
        reader.read(1) && clock.elapsed
      end
      assert_in_delta 50.0, elapsed, 1e-5, kind
    end
  end

  def test_a_listener_and_a_connection_in_its_queue_let_time_jump
    VirtualClock.run do |clock, scope|
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      scope.spawn { sleep(20) && server.accept.write("late") }
      assert_equal "late", client.read(4)
      assert_in_delta 20.0, clock.elapsed, 1e-5
    end
  end

  # The bytes of a large response are on their way for a while: the limit of the wait must not come before them.
  def test_bytes_between_two_sockets_of_this_process_arrive_before_a_limit
    VirtualClock.run do |_clock, scope|
      reader, writer = tcp_pair
      scope.spawn { 20.times { writer.write("x" * 300_000) } }
      20.times { NeverBlock.timeout(0.01) { assert_equal 300_000, reader.read(300_000).bytesize } }
    end
  end

  # Where io_uring sends by itself, too: responses that are handed over to it.
  def test_a_send_to_a_client_that_does_not_read_lets_time_jump
    real = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    VirtualClock.run do |clock|
      limits = {write_timeout: 3600, min_answer_rate: 0, slow_request: 7200}
      server = NeverBlock::Server.new(->(_env) { [200, {}, ["x" * 1_900]] }, bind: "tcp://127.0.0.1:0", **limits).start
      client = TCPSocket.new("127.0.0.1", server.addresses.first[/\d+\z/])
      client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 4_000)
      sleep 1 until server.stats[:timeouts] == 1
      assert_in_delta 3600, clock.elapsed, 2
      server.stop
    ensure
      client&.close
    end
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - real, :<, 600
  end

  # The loop looks at other threads last of all.
  def test_bytes_that_arrive_while_the_loop_looks_around_come_before_a_limit
    {pipe: -> { IO.pipe }, tcp: -> { tcp_pair }}.each do |kind, pair|
      VirtualClock.run do |clock|
        scheduler = NeverBlock::Scheduler.current
        reader, writer = pair.call
        idle = Thread.new { Queue.new.pop }
        scheduler.define_singleton_method(:threads_outstanding?) { writer.write("x").zero? }
        assert_equal "x", NeverBlock.timeout(60) { reader.read(1) }, kind
        assert_in_delta 0.0, clock.elapsed, 1e-5, kind
      ensure
        scheduler.singleton_class.remove_method(:threads_outstanding?)
        idle.kill
      end
    end
  end

  def test_a_process_is_waited_for_in_real_time
    VirtualClock.run do |clock|
      assert_equal "done\n", NeverBlock.timeout(30) { `sleep 0.05; echo done` }
      assert_operator clock.elapsed, :>, 0.01 # time stands still while code runs
      assert_operator clock.elapsed, :<, 30
    end
  end

  def test_an_offloaded_call_and_a_thread_are_waited_for
    VirtualClock.run do |clock|
      opened = Queue.new
      assert_equal(7, NeverBlock.timeout(600) { NeverBlock.offload { Thread.new { opened << 7 }.join && opened.pop } })
      assert_equal(8, NeverBlock.timeout(600) { Thread.new { 8 }.value })
      assert_operator clock.elapsed, :<, 600
    end
  end

  def test_a_thread_that_waits_for_the_loop_does_not_stop_time
    VirtualClock.run do |clock|
      queue = Queue.new
      thread = Thread.new { queue.pop }
      pass_until("the thread waits") { thread.status == "sleep" }
      before = clock.elapsed
      sleep 100
      assert_in_delta 100, clock.elapsed - before, 1e-5
      queue << 1
      assert_equal 1, thread.value
    end
  end

  def test_advance_runs_every_task_at_its_time
    VirtualClock.run do |clock, scope|
      ticks = []
      scope.spawn(transient: true) { loop { sleep(1) && ticks << clock.elapsed } }
      assert_in_delta 3.5, clock.advance(3.5)
      assert_equal [1.0, 2.0, 3.0], ticks
      clock.advance(0.5)
      assert_equal [1.0, 2.0, 3.0, 4.0], ticks
    end
  end

  def test_advance_does_not_wait_for_another_process
    VirtualClock.run do |clock, scope|
      reader, = IO.popen("cat", "r+").then { |process| [process] }
      waiting = scope.spawn { reader.read(1) }
      clock.advance(3600)
      assert_in_delta 3600.0, clock.elapsed, 1
      reader.write("x")
      assert_equal "x", waiting.value
    ensure
      reader&.close
    end
  end

  def test_advance_outside_of_a_loop_moves_the_time
    clock = VirtualClock.start
    before = [NeverBlock::Clock.now, NeverBlock::Clock.wall, NeverBlock::Clock.time]
    assert_in_delta 90.0, clock.advance(90)
    after = [NeverBlock::Clock.now, NeverBlock::Clock.wall, NeverBlock::Clock.time]
    after.zip(before) { |later, earlier| assert_in_delta 90.0, later - earlier, 1e-5 }
  ensure
    clock.stop
  end

  def test_settle_returns_when_all_other_tasks_wait
    VirtualClock.run do |clock, scope|
      steps = []
      scope.spawn { 3.times { |step| NeverBlock.pass && steps << step } || steps << :passed }
      scope.spawn { sleep(10) && steps << :slept }
      scope.spawn { NeverBlock.offload { 1 } && steps << :offloaded }
      clock.settle
      assert_includes steps, :offloaded
      refute_includes steps, :slept
      assert_operator clock.elapsed, :<, 10
    end
  end

  def test_a_cancelled_settle_leaves_nothing_behind
    VirtualClock.run do |clock, scope|
      busy = scope.spawn { NeverBlock.offload { Queue.new.pop(timeout: 0.05) } }
      settling = scope.spawn { clock.settle }
      NeverBlock.pass
      settling.cancel
      assert_raises(NeverBlock::Cancelled) { settling.value }
      busy.join
      clock.settle
    end
  end

  def test_a_settling_task_goes_on_when_the_clock_is_stopped
    in_loop do |scope|
      clock = VirtualClock.start
      settling = scope.spawn { clock.settle || :settled }
      NeverBlock.pass
      clock.stop
      assert_equal :settled, settling.value
    ensure
      clock.stop
    end
  end

  def test_exceptions_from_outside_reach_a_settling_task
    VirtualClock.run do |clock, scope|
      busy = Thread::Queue.new
      scope.spawn { NeverBlock.offload { busy.pop } }
      raised = scope.spawn { assert_raises(IOError) { clock.settle } }
      NeverBlock.pass
      raised.fiber.raise(IOError, "from outside")
      assert_equal "from outside", raised.value.message
      busy << 1
      clock.settle
    end
  end

  slow "a program whose every allocation collects garbage"
  def test_the_collector_may_run_at_any_time
    assert_equal "3.0", assert_ruby(<<~RUBY).strip
      require "neverblock/testing"
      NeverBlock::Testing::VirtualClock.run do |clock, scope|
        scope.spawn(transient: true) { loop { sleep(1) && GC.compact } }
        queue = Thread::Queue.new
        GC.stress = true
        queue.pop(timeout: 1)
        clock.settle
        GC.stress = false
        clock.advance(2)
        puts clock.elapsed
      end
    RUBY
  end

  def test_a_deadlock_is_one_on_a_virtual_clock_too
    assert_raises(NeverBlock::DeadlockError) { VirtualClock.run { Queue.new.pop } }
  end

  # What is left of a limit may be less than a nanosecond.
  def test_the_shortest_wait_moves_the_clock
    VirtualClock.run do
      waits = [-> { sleep 1e-13 }, -> { sleep 1 / 10r**12 }, -> { Queue.new.pop(timeout: 1e-13) }, -> { Thread.new { sleep }.tap { |thread| thread.join(1e-13) }.kill }]
      waits.each do |wait|
        before = NeverBlock::Clock.nanoseconds
        wait.call
        assert_operator NeverBlock::Clock.nanoseconds, :>, before
      end
    end
  end

  def test_a_wait_for_what_is_left_ends
    VirtualClock.run do |clock|
      [0.1, 0.3, 1.1, 7.7].each do |seconds|
        deadline = NeverBlock::Clock.now + seconds
        while (left = deadline - NeverBlock::Clock.now).positive?
          sleep left
        end
      end
      assert_in_delta 9.2, clock.elapsed, 1e-5
    end
  end

  def test_a_forked_child_has_the_real_clock
    clock = VirtualClock.start
    clock.advance(1_000_000)
    reader, writer = IO.pipe
    fork do
      writer.write(NeverBlock::Clock.virtual?)
      exit!(0)
    end
    writer.close
    assert_equal "false", reader.read
    Process.wait
  ensure
    clock&.stop
  end

  def test_one_clock_at_a_time
    clock = VirtualClock.start
    assert_match(/stop it first/, assert_raises(NeverBlock::ConfigurationError) { VirtualClock.start }.message)
    clock.stop
    refute_predicate clock, :running?
    assert_match(/is stopped/, assert_raises(NeverBlock::ClosedError) { clock.advance(1) }.message)
    assert_match(/is stopped/, assert_raises(NeverBlock::ClosedError) { clock.settle }.message)
    other = VirtualClock.start
    clock.stop
    assert_predicate other, :running?, "a stopped clock stopped another"
  ensure
    other&.stop
  end

  def test_bad_input
    clock = VirtualClock.start
    [-1, nil, "5", Float::NAN, Float::INFINITY, 1i, 1e9, 10**30].each do |bad|
      assert_match(/#{Regexp.escape(bad.inspect)} is not a number/, assert_raises(ArgumentError) { clock.advance(bad) }.message)
    end
    assert_match(/in a task of a loop/, assert_raises(ThreadError) { clock.settle }.message)
  ensure
    clock.stop
  end

  # The real clock's own calls keep their results: an item at once, nil at once, an error for both options.
  def test_queues_are_ruby_s_own_otherwise
    VirtualClock.run do
      queue = Queue.new << 1 << 2
      assert_equal [1, 2, nil], [queue.pop(timeout: 5), queue.pop(timeout: 0), queue.pop(timeout: 0)]
      assert_raises(ThreadError) { queue.pop(true) }
      assert_raises(ArgumentError) { queue.pop(true, timeout: 1) }
      assert_raises(TypeError) { queue.pop(timeout: "1") }
      queue.close
      assert_nil queue.pop(timeout: 5)
      full = SizedQueue.new(1)
      assert_same full, full.push(1, timeout: 5)
      NeverBlock.spawn { sleep(1) && full.pop }
      assert_same full, full.push(2, timeout: 5)
    end
  end

  private

  def tcp_pair(host = "127.0.0.1")
    server = TCPServer.new(host, 0)
    client = TCPSocket.new(host, server.local_address.ip_port)
    [client, server.accept]
  ensure
    server&.close
  end

  def ask_silent_server(seconds)
    server = TCPServer.new("127.0.0.1", 0)
    http = Net::HTTP.new("127.0.0.1", server.local_address.ip_port)
    http.read_timeout = seconds
    http.max_retries = 0
    assert_raises(Net::ReadTimeout) { http.get("/") }
  end
end
