# frozen_string_literal: true

# engines: every - file locks, processes and closed descriptors end waits

require "test_helper"
require "neverblock"
require "open3"
require "tempfile"
require "timeout"
require "support/peer"

# Each patched call inside a loop: it parks its fiber, and other fibers run meanwhile.
class PatchesIntegrationTest < Minitest::Test
  include NeverBlockTest::Helpers

  MESSAGE = "hello"

  # -- flock

  def test_flock_waits_for_another_task
    Tempfile.create do |file|
      order = []
      NeverBlock.run do
        holder = File.open(file.path)
        holder.flock(File::LOCK_EX)
        waiter = NeverBlock.spawn do
          File.open(file.path) { |other| order << other.flock(File::LOCK_EX) }
        end
        NeverBlock.pass until waiter.state == :running && waiter.waits_for
        order << :released
        holder.flock(File::LOCK_UN)
        waiter.join
        holder.close
      end
      assert_equal [:released, 0], order
    end
  end

  slow "it starts Ruby"
  # Each call waits for a task that is queued behind it.
  def test_flock_beyond_the_size_of_its_pool
    assert_equal "256\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_WAIT_THREADS" => "1"})
      require "neverblock"
      require "tempfile"
      file = Tempfile.new
      locked = 0
      NeverBlock.run do |scope|
        file.flock(File::LOCK_EX)
        tasks = Array.new(256) { scope.spawn { File.open(file.path) { |other| other.flock(File::LOCK_EX) && locked += 1 } } }
        NB.pass until NeverBlock.stats[:pools][:waits].values_at(:threads, :queued).sum >= 256
        spawn("exit 0")
        Process.wait
        file.flock(File::LOCK_UN)
        tasks.each(&:join)
      end
      p locked
    RUBY
  end

  def test_flock_waits_for_another_process
    Tempfile.create do |file|
      NeverBlock.run do
        holder, ready = other_process(<<~RUBY, file.path)
          File.open(ARGV[0]) do |file|
            file.flock(File::LOCK_EX)
            puts "locked"
            $stdin.read
          end
        RUBY
        turns = 0
        assert_equal "locked\n", ready.gets
        ticker = NeverBlock.spawn { loop { sleep(0.001) && turns += 1 } } # real: another process holds the lock
        waiter = NeverBlock.spawn { file.flock(File::LOCK_SH) }
        wait_until("other tasks to go on") { turns > 20 }
        assert waiter.alive?
        holder.close
        assert_equal 0, waiter.value
        ticker.cancel
        ready.close
      end
    end
  end

  def test_flock_can_be_called_off_and_does_not_get_the_lock_later
    Tempfile.create do |file|
      NeverBlock.run do
        holder = File.open(file.path)
        holder.flock(File::LOCK_EX)
        assert_raises(Timeout::Error) { Timeout.timeout(0.05) { file.flock(File::LOCK_EX) } }
        holder.close
        File.open(file.path) { |third| assert_equal 0, third.flock(File::LOCK_EX | File::LOCK_NB) }
      end
    end
  end

  slow "many threads"
  def test_many_more_waiters_than_native_threads
    Tempfile.create do |file|
      count = 0
      NeverBlock.run do
        NeverBlock.concurrently(1..200, limit: 200) do
          File.open(file.path) do |own|
            own.flock(File::LOCK_EX)
            before = count
            File.read(file.path)
            NeverBlock.pass
            count = before + 1
          end
        end
      end
      assert_equal 200, count
    end
  end

  # -- fsync

  def test_fsync_writes_what_was_buffered
    Tempfile.create do |file|
      file.sync = false
      NeverBlock.run do
        file.write("a")
        assert_equal 0, file.fsync
        assert_equal "a", File.read(file.path)
        file.write("b")
        assert_equal 0, file.fdatasync
        assert_equal "ab", File.read(file.path)
        File.open(file.path) { |reader| assert_equal 0, reader.fsync }
      end
    end
  end

  # -- getnameinfo

  def test_recvfrom_names_the_sender_if_asked_to
    receiver = UDPSocket.new
    receiver.bind("127.0.0.1", 0)
    receiver.do_not_reverse_lookup = false
    sender = UDPSocket.new
    sender.bind("127.0.0.1", 0)
    post = -> { sender.send(MESSAGE, 0, "127.0.0.1", receiver.local_address.ip_port) }
    post.call
    expected = receiver.recvfrom(10)
    actual = NeverBlock.run do
      NeverBlock.spawn(&post) # it runs when the receiver waits
      receiver.recvfrom(10)
    end
    assert_equal expected, actual
    refute receiver.do_not_reverse_lookup
  ensure
    [receiver, sender].each(&:close)
  end

  # -- daemon

  def test_daemon_beside_live_tasks_is_refused
    error = assert_raises(NeverBlock::Patches::Daemon::LiveTasksError) do
      NeverBlock.run do
        NeverBlock.spawn { sleep }
        NeverBlock.pass
        Process.daemon
      end
    end
    assert_kind_of NeverBlock::Error, error
    assert_includes error.message, "1 other live task:"
    assert_includes error.message, "before NeverBlock.run"
  end

  def test_daemon_alone_goes_on_in_the_child
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      Process.setsid
      NeverBlock.run do
        Process.daemon(true, true)
        writer.write("child #{Process.ppid != pid}")
      end
      writer.write(NeverBlock.run { " runs" })
      writer.close
      exit!(0)
    end
    writer.close
    assert reader.wait_readable(10), "the daemon does not go on"
    assert_equal "child true runs", reader.read
    Process.wait(pid)
  ensure
    reader.close
  end

  # -- close

  def test_a_descriptor_closed_by_another_fiber_ends_the_wait
    r, w = IO.pipe
    NeverBlock.run do
      readers = [-> { r.read(1) }, -> { r.wait_readable }].map { |way| NeverBlock.spawn { outcome(&way) } }
      NeverBlock.pass
      r.close
      readers.each do |reader|
        assert_instance_of IOError, reader.value
        assert_equal "stream closed in another thread", reader.value.message
      end
    end
  ensure
    w.close
  end

  def test_a_descriptor_closed_by_another_thread_ends_the_wait
    r, w = IO.pipe
    parked = Thread::Queue.new
    thread = Thread.new do
      NeverBlock.run do
        reader = NeverBlock.spawn { outcome { r.read(1) } }
        NeverBlock.spawn { parked << true }
        reader.value
      end
    end
    parked.pop
    wait_until("the loop to wait") { thread.stop? }
    r.close
    assert thread.join(NeverBlockTest::LIMIT), "the reader was not woken"
    assert_instance_of IOError, thread.value
  ensure
    w.close
  end

  # -- TCPSocket.new

  # Before 3.4 Ruby connects by itself, and rarely clears the error of a refusal before it reads it.
  def test_a_service_by_name
    skip "TCPSocket.new is Ruby's own" unless NeverBlock::Patches::TCPSocket.needed?
    NeverBlock.run do
      error = assert_raises(SystemCallError) { TCPSocket.new("localhost", "tcpmux") }
      assert_match(/for "localhost" port (tcpmux|1)\z/, error.message)
    end
  end

  def test_a_local_port_that_is_given_is_used
    with_server do |port|
      mine = NeverBlockTest::Peer.free_port
      NeverBlock.run do
        socket = TCPSocket.new("localhost", port, "127.0.0.1", mine)
        assert_equal mine, socket.local_address.ip_port
        socket.close
      end
    end
  end

  class Greeting < TCPSocket
    def initialize(port)
      super("localhost", port)
      @greeting = "hello"
    end

    def greet = puts(@greeting)
  end

  def test_subclasses_and_blocks
    with_server do |port|
      answer = NeverBlock.run do
        Greeting.open(port) do |socket|
          assert_instance_of Greeting, socket
          socket.greet
          socket.gets
        end
      end
      assert_equal "hello\n", answer
    end
  end

  def test_the_socket_owns_its_descriptor
    with_server do |port|
      NeverBlock.run do
        before = Dir.children("/dev/fd").size
        20.times { TCPSocket.new("localhost", port) }
        wait_until("forgotten sockets to be closed") { GC.start || Dir.children("/dev/fd").size < before + 20 }
        socket = TCPSocket.new("localhost", port)
        GC.start
        socket.puts "still mine"
        assert_equal "still mine\n", socket.gets
        socket.close
      end
    end
  end

  private

  # A server that sends each line back.
  def with_server
    server = TCPServer.new("127.0.0.1", 0)
    threads = Thread.new do
      loop { Thread.new(server.accept) { |client| client.each_line { |line| client.write(line) } } }
    end
    yield server.local_address.ip_port
  ensure
    threads.kill.join
    server.close
  end

  def outcome
    yield
  rescue => error
    error
  end

  # @return [Array<IO>] its standard input and output
  def other_process(program, *arguments)
    input, output, process = Open3.popen2(*NeverBlockTest::Helpers::BARE, "-e", "$stdout.sync = true\n#{program}", *arguments)
    @processes = [*@processes, process]
    [input, output]
  end

  def teardown
    @processes&.each(&:join)
  end
end
