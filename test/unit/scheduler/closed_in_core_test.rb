# frozen_string_literal: true

# engines: every - the back end watches a descriptor that is closed inside of C
require "test_helper"
require "neverblock"
require "fcntl"
require "socket"
require "support/loops"

# Core closes some descriptors without a call of IO#close: at the end of a popen block, in close_read and close_write. A
# waiting task has what a waiting thread has, and never another connection's bytes.
class ClosedInCoreTest < Minitest::Test
  include NeverBlockTest::Loops

  CLOSED = "stream closed in another thread"
  LARGE = "x" * 1_000_000

  # Each: what to wait on, the wait, the close.
  WAYS = {
    "a pipe's close_read" => [-> { IO.pipe[0] }, ->(io) { io.read(1) }, ->(io) { io.close_read }],
    "a pipe's close_write" => [-> { (@pipe = IO.pipe)[1] }, ->(io) { io.write(LARGE) }, ->(io) { io.close_write }],
    "close_write of popen r+" => [-> { IO.popen("sleep 9", "r+") }, ->(io) { io.write(LARGE) }, ->(io) { io.close_write }],
    "close_read of popen r+" => [-> { IO.popen("sleep 9", "r+") }, ->(io) { io.read(1) }, ->(io) { io.close_read }],
    "both halves of a socket" => [-> { (@pair = UNIXSocket.pair)[0] }, ->(io) { io.wait_priority }, ->(io) { io.close_read || io.close_write }],
    "a select" => [-> { IO.pipe[0] }, ->(io) { IO.select([io]) }, ->(io) { io.close_read }]
  }.freeze

  WAYS.each do |name, (open, wait, close)|
    define_method(:"test_#{name.tr(" ", "_")}_ends_the_wait") do
      io = instance_exec(&open)
      error = in_loop do |scope|
        waiting = spawn_waiting(scope) { assert_raises(IOError) { wait.call(io) } }
        close.call(io)
        waiting.value
      end
      assert_equal CLOSED, error.message
    ensure
      Process.kill(:KILL, io.pid) if io && !io.closed? && io.pid
      io&.close
    end
  end

  def test_the_end_of_a_popen_block_ends_the_wait
    error = in_loop do |scope|
      writing = nil
      IO.popen("sleep 0.1", "w") do |io|
        writing = spawn_waiting(scope) { assert_raises(IOError) { io.write(LARGE) } }
      end
      writing.value
    end
    assert_equal CLOSED, error.message
  end

  def test_reopen_ends_the_wait
    reader, writer = IO.pipe
    other = IO.pipe.first
    [-> { reader.reopen(other) }, -> { reader.reopen(File::NULL) }].each do |reopen|
      error = in_loop do |scope|
        waiting = spawn_waiting(scope) { assert_raises(IOError) { reader.read(1) } }
        reopen.call
        waiting.value
      end
      assert_equal CLOSED, error.message
    end
  ensure
    [reader, writer, other].each(&:close)
  end

  def test_a_refused_reopen_and_one_as_itself_leave_the_wait_alone
    reader, writer = IO.pipe
    in_loop do |scope|
      waiting = spawn_waiting(scope) { reader.read(1) }
      assert_raises(TypeError) { reader.reopen(nil) }
      assert_raises(Errno::ENOENT) { reader.reopen("/no/such/file") }
      assert_same reader, reader.reopen(reader)
      writer << "x"
      assert_equal "x", waiting.value
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_popen_is_written_to_after_its_close_read
    io = IO.popen("cat > /dev/null", "r+")
    in_loop do |scope|
      io.close_read
      assert_equal LARGE.bytesize, io.write(LARGE)
      io.close
    end
  end

  def test_a_close_ends_a_write_after_close_read
    io = IO.popen("sleep 9", "r+")
    error = in_loop do |scope|
      io.close_read
      waiting = spawn_waiting(scope) { assert_raises(IOError) { io.write(LARGE) } }
      Process.kill(:KILL, io.pid)
      io.close
      waiting.value
    end
    assert_equal CLOSED, error.message
  end

  def test_a_socket_reopened_as_a_file_is_written_and_read
    pair = UNIXSocket.pair
    in_loop do
      pair[0].reopen(File::NULL, "r+")
      assert_equal LARGE.bytesize, pair[0].write(LARGE)
      assert_nil pair[0].read(1)
    end
  ensure
    pair.each(&:close)
  end

  def test_popen_is_core_s_own_otherwise
    in_loop do
      assert_equal([7, 3], [IO.popen("exit 3") { 7 }, $?.exitstatus])
      assert_equal("child", IO.popen("-") { |io| io ? io.read : print("child") })
      assert_equal("hi\n", IO.popen({"A" => "hi"}, ["sh", "-c", "echo $A"], err: %i[child out], &:read))
      assert_equal(5, IO.popen("cat", "r+") { break 5 })
      assert_equal(6, IO.popen("cat", "r+") { |io| io.close || 6 })
      assert_raises(Errno::ENOENT) { IO.popen(["/nowhere/at/all"]) { flunk } }
      assert_equal(["a", "b"], IO.popen("cat", "r+") { |io| io.write("a\nb") && io.close_write || io.readlines(chomp: true) })
    end
  end

  # A socket that stays open for one direction keeps its waits.
  def test_half_of_a_socket_ends_no_wait_of_the_other
    in_loop do |scope|
      here, there = UNIXSocket.pair
      reading = spawn_waiting(scope) { here.read(4) }
      here.close_write
      there.write("late")
      assert_equal "late", reading.value
    end
  end

  # The number of the closed descriptor belongs to the next connection, whose bytes are its own. The patch of IO#close is
  # not all there is: a library in C may close a descriptor as well.
  def test_the_bytes_of_a_connection_never_reach_another_s_task
    [->(io) { io.close_write || io.close_read }, ->(io) { close_behind_its_back(io) }].each do |close|
      in_loop do |scope|
        first, = UNIXSocket.pair
        number = first.fileno
        old = spawn_waiting(scope) { assert_raises(IOError, Errno::EBADF) { first.readpartial(100) } }
        close.call(first)
        mine, other = pair_at(number)
        new = spawn_waiting(scope) { mine.readpartial(100) }
        other.write("secret")
        assert_equal "secret", new.value
        old.value
      end
    end
  end

  def test_a_hundred_and_twenty_loops_are_told
    pipes = Array.new(120) { IO.pipe }
    ready = Queue.new
    threads = pipes.map do |reader, _|
      Thread.new do
        NeverBlock.run do |scope|
          reading = spawn_waiting(scope) { assert_raises(IOError) { reader.read(1) } }
          ready << true
          reading.value.message
        end
      end
    end
    threads.each { ready.pop }
    pipes.each { |reader, _| reader.close }
    assert_equal [CLOSED], threads.map(&:value).uniq
  end

  private

  # @return [Array<UNIXSocket>] two ends; the first has this number
  def pair_at(number)
    pair = UNIXSocket.pair
    pair.reverse! if pair[1].fileno == number
    return pair if pair[0].fileno == number
    mine = UNIXSocket.for_fd(pair[0].fcntl(Fcntl::F_DUPFD, number))
    assert_equal number, mine.fileno
    pair[0].close
    [mine, pair[1]]
  end

  # A task that waits in its block.
  def spawn_waiting(scope, &block)
    begun = false
    task = scope.spawn { (begun = true) && block.call }
    pass_until("it has begun") { begun }
    task
  end

  # IO#close without our patch, as a library in C might.
  def close_behind_its_back(io) = IO.instance_method(:close).super_method.bind_call(io)
end
