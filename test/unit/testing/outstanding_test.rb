# frozen_string_literal: true

# engines: every - each back end has its own view of what is under way
require "test_helper"
require "neverblock/testing"
require "socket"
require "support/loops"

# What a virtual clock waits for, and what it doesn't wait for.
class OutstandingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  VirtualClock = NeverBlock::Testing::VirtualClock

  def test_a_thread_that_waits_for_a_lock_of_a_task_does_not_stop_time
    VirtualClock.run do |clock|
      lock = Mutex.new.tap(&:lock)
      thread = Thread.new { lock.synchronize { :locked } }
      pass_until("the thread waits") { thread.status == "sleep" }
      before = clock.elapsed
      sleep 100
      clock.settle
      assert_in_delta 100, clock.elapsed - before, 1e-5
      lock.unlock
      assert_equal :locked, NeverBlock.timeout(600) { thread.value }
      assert_operator clock.elapsed, :<, 600
    end
  end

  # Active Record's reaper looks at connections once a minute.
  def test_a_background_thread_that_sleeps_does_not_stop_time
    thread = Thread.new { Thread.current.thread_variable_set(:fork_safe, true) && sleep(600) }
    wait_until("the thread sleeps") { thread.thread_variable?(:fork_safe) && thread.status == "sleep" }
    began = now
    VirtualClock.run { sleep 3600 }
    assert_operator now - began, :<, 600
  ensure
    thread.kill.join
  end

  def test_a_thread_that_has_been_woken_is_waited_for
    wakers = {queue: ->(thread) { thread[:queue] << 1 }, raise: ->(thread) { thread.raise("go on") }, kill: :kill.to_proc, wakeup: :wakeup.to_proc}
    wakers.each do |name, wake|
      done = Thread::Queue.new
      thread = Thread.new do
        (Thread.current[:queue] = Thread::Queue.new) && ((name == :queue) ? Thread.current[:queue].pop : sleep)
      rescue => error
        error.message
      ensure
        done << name
      end
      VirtualClock.run do |clock|
        pass_until("the thread waits") { thread.status == "sleep" }
        wake.call(thread)
        assert_equal name, NeverBlock.timeout(600) { done.pop }
        assert_operator clock.elapsed, :<, 600
      end
      thread.join
    end
  end

  # A ConditionVariable's lock is taken again: the thread looks as if it still waited for a signal.
  def test_a_thread_that_leaves_a_condition_variable_is_waited_for
    lock = Mutex.new
    condition = ConditionVariable.new
    done = Thread::Queue.new
    thread = Thread.new { lock.synchronize { condition.wait(lock) } && done << 1 }
    VirtualClock.run do |clock|
      pass_until("the thread waits") { thread.status == "sleep" }
      lock.synchronize do
        condition.signal
        NeverBlock.offload { Thread.pass }
        sleep 10
      end
      assert_equal 1, NeverBlock.timeout(600) { done.pop }
      assert_operator clock.elapsed, :<, 600
    end
    thread.join
  end

  def test_settle_and_advance_end_at_their_limit_and_name_what_goes_on
    reader, writer = IO.pipe
    gate = Thread::Queue.new
    obstacles = {
      # A thread that waits for the kernel may do anything next.
      /other threads: .*left behind.* at .*read/ => ->(_) { Thread.new { reader.read }.tap { |thread| thread.name = "left behind" } },
      /calls on other threads .*: 1$/ => ->(scope) { scope.spawn { NeverBlock.offload { gate.pop } } },
      /one of the tasks .*Task "busy" waiting for its turn/ => ->(scope) { scope.spawn(name: "busy") { NeverBlock.pass while gate.empty? } }
    }
    obstacles.each do |words, start|
      VirtualClock.run do |clock, scope|
        left = start.call(scope)
        [-> { clock.settle(limit: 0.05) }, -> { clock.advance(5, limit: 0.05) }].each do |wait|
          error = assert_raises(NeverBlock::TimeoutError, &wait)
          assert_match(/stood still for 0.05 s of real time/, error.message)
          assert_match words, error.message
        end
        assert_operator clock.elapsed, :<, 5
        writer.close
        gate << true
        left.join
        gate.clear
        clock.settle
      end
    end
  end

  def test_a_descriptor_that_is_in_the_way_is_named
    reader, = IO.pipe
    words = ->(number) { NeverBlock::Testing::Obstacle.new(nil, number).to_s }
    assert_match(/at descriptor #{reader.fileno} \(pipe:.*\)\z/, words.call(reader.fileno))
    assert_match(/at descriptor -1 \(closed\)\z/, words.call(-1))
  end

  def test_an_exception_from_another_thread_comes_before_a_jump
    clock = VirtualClock.start
    main = Thread.current
    assert_raises(IOError) do
      NeverBlock.run { Thread.new { main.raise(IOError, "from outside") } && sleep(100) }
    end
    assert_operator clock.elapsed, :<, 100
  ensure
    clock.stop
  end

  def test_a_ractor_is_waited_for
    assert_equal ["x", "true", "7"], assert_ruby(<<~RUBY).lines(chomp: true)
      require "neverblock/testing"
      $VERBOSE = nil
      reader, writer = IO.pipe
      NeverBlock::Testing::VirtualClock.run do |clock|
        Ractor.new(writer) { |pipe| 100_000.times { |number| number * 2 } && pipe.syswrite("x") }
        puts NeverBlock.timeout(600) { reader.read(1) }
        puts clock.elapsed < 600
      end
      ractor = Ractor.new { Thread::Queue.new.push(7).pop(timeout: 1) }
      puts ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
  end

  def test_a_forked_child_that_holds_the_other_end_is_waited_for
    {tcp: -> { tcp_pair }, unix: -> { UNIXSocket.pair }, pipe: -> { IO.pipe }}.each do |kind, pair|
      reader, writer = pair.call
      child = fork do
        writer.write("x")
        exit!(0)
      end
      VirtualClock.run do |clock|
        assert_equal "x", NeverBlock.timeout(600) { reader.read(1) }, kind
        assert_operator clock.elapsed, :<, 600
      end
    ensure
      Process.wait(child) if child
    end
  end

  # Another process may have opened a FIFO as well.
  # As a test leaves it behind that kills a process.
  def test_a_child_that_has_ended_and_was_not_reaped_is_not_waited_for
    skip "only Linux tells" unless RUBY_PLATFORM.include?("linux")
    child = fork { exit! }
    wait_until("its end") { File.read("/proc/#{child}/stat").include?(") Z ") }
    real = real_seconds do
      VirtualClock.run do |clock|
        reader, = UNIXSocket.pair
        assert_nil reader.wait_readable(3600)
        assert_in_delta 3600, clock.elapsed, 1
      end
    end
    assert_operator real, :<, 600
  ensure
    Process.wait(child) if child
  end

  def test_a_fifo_is_another_process_s
    Dir.mktmpdir do |folder|
      File.mkfifo(path = File.join(folder, "fifo"))
      VirtualClock.run do |clock|
        reader = File.open(path, File::RDONLY | File::NONBLOCK)
        File.open(path, "w") do
          assert_nil reader.wait_readable(0.05)
          assert_operator real_seconds { assert_nil reader.wait_readable(0.05) }, :>, 0.04
        end
      end
    end
  end

  # A slow reader keeps the buffers full. The bytes in them wait for the reader.
  def test_full_buffers_let_time_jump
    real = real_seconds do
      VirtualClock.run do |clock, scope|
        reader, writer = tcp_pair
        scope.spawn { writer.write("x" * 10_000_000) && writer.close }
        parts = 0
        parts += 1 while reader.read(1_000_000) && sleep(60)
        assert_equal 10, parts
        assert_in_delta 600, clock.elapsed, 30
      end
    end
    assert_operator real, :<, 300
  end

  # A corked socket keeps a last small packet for 0.2 s, as the kernel of a busy machine does.
  def test_bytes_between_sockets_of_this_process_take_no_time
    skip "no TCP_CORK here" unless Socket.const_defined?(:TCP_CORK)
    server = TCPServer.new("127.0.0.1", 0)
    VirtualClock.run do |clock|
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      peer = server.accept
      client.setsockopt(:TCP, :CORK, true)
      client.write("late")
      began = clock.elapsed
      assert_equal "late", NeverBlock.timeout(600) { peer.readpartial(9) }
      assert_equal began, clock.elapsed
    ensure
      [client, peer].compact.each(&:close)
    end
  ensure
    server&.close
  end

  def test_idle_loops_of_other_threads_let_time_stand_still
    clock = VirtualClock.start
    queue = Thread::Queue.new
    loops = NeverBlock::Loops.all
    thread = Thread.new { NeverBlock.run { queue.pop } }
    wait_until("the other loop is idle") { (NeverBlock::Loops.all - loops).any? { |other| other.idle_on(thread) } }
    before = clock.elapsed
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    Thread.pass while Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 0.05
    assert_in_delta before, clock.elapsed, 1e-5
    queue << 1
    thread.join
  ensure
    clock.stop
  end

  def test_two_tasks_advance_the_clock
    VirtualClock.run do |clock, scope|
      advancing = [5, 10, 7].map { |seconds| scope.spawn { clock.advance(seconds) } }
      assert_equal [5.0, 10.0, 7.0], advancing.map(&:value)
    end
  end

  # What is left of a wait stays the same when the clock changes under it.
  def test_waits_outlast_the_start_and_the_stop_of_a_clock
    NeverBlock.run do |scope|
      before = scope.spawn { sleep 3600 }
      NeverBlock.pass
      clock = VirtualClock.start
      clock.advance(3599)
      assert_predicate before, :alive?
      clock.advance(2)
      refute_predicate before, :alive?
      after = scope.spawn { sleep 0.001 }
      NeverBlock.pass
      clock.stop
      assert_equal 3601.0, clock.elapsed
      NeverBlock.timeout(60) { after.join }
    ensure
      clock&.stop
    end
  end

  private

  def real_seconds
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  end

  def tcp_pair
    server = TCPServer.new("127.0.0.1", 0)
    client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
    [client, server.accept]
  ensure
    server&.close
  end
end
