# frozen_string_literal: true

# engines: every - io_uring reads and writes files, the others use threads

require "test_helper"
require "support/open_files"
require "support/loops"
require "tempfile"
require "tmpdir"

# Regular files: pages in memory are read in place, others by a native thread or the kernel's ring, whose work may
# outlive the fiber.
class TransferFilesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::OpenFiles
  include NeverBlockTest::Loops

  def setup
    @folder = Dir.mktmpdir
    @experimental, Warning[:experimental] = Warning[:experimental], false # IO::Buffer
  end

  def teardown
    Warning[:experimental] = @experimental
    FileUtils.rm_rf(@folder)
  end

  def test_a_file_outside_of_the_page_cache_is_read
    path = file_of(3_000_000)
    {
      read: ->(io) { io.read.bytesize },
      readpartial: ->(io) { io.readpartial(100).bytesize },
      read_nonblock: ->(io) { io.read_nonblock(100).bytesize },
      sysread: ->(io) { io.sysread(100).bytesize },
      pread: ->(io) { io.pread(100, 2_000_000).bytesize }
    }.each do |name, read|
      evict(path)
      size = in_loop { File.open(path) { |io| read.call(io) } }
      assert_equal (name == :read) ? 3_000_000 : 100, size, name
    end
  end

  # Ruby 4.1 calls io_wait after -EAGAIN, and a file is always "ready": it would loop forever.
  def test_version_4_never_returns_eagain_for_a_file
    path = file_of(300_000)
    in_loop do
      File.open(path) do |io|
        evict(path)
        assert_operator Fiber.scheduler.io_read_v4(io, IO::Buffer.new(65_536), 0, 65_536), :>, 0
        evict(path)
        assert_operator Fiber.scheduler.io_pread_v4(io, IO::Buffer.new(65_536), 200_000, 0, 65_536), :>, 0
      end
    end
  end

  def test_written_data_can_be_read
    path = File.join(@folder, "written")
    content = Random.new(1).bytes(5_000_000)
    in_loop do
      File.open(path, "w+b") do |io|
        assert_equal content.bytesize, io.write(content)
        io.rewind
        assert_equal content, io.read
        assert_equal 3, io.pwrite("abc", 1_000_000)
        assert_equal "abc", io.pread(3, 1_000_000)
      end
      File.open(path, "ab") { |io| io.write(content) }
      assert_equal 2 * content.bytesize, File.size(path)
    end
  end

  # R1 of the runtime's review: the transfer went on after its task had left, at the next one's position.
  def test_a_rewritten_file_has_no_bytes_of_an_abandoned_write
    path = File.join(@folder, "written")
    in_loop do
      10.times do |n|
        leave_in_the_middle(n, ->(file) { file.write("A" * 8_000_000) }, path) do |file|
          file.rewind
          file.truncate(0)
          file.write("short version")
        end
        pass_until("the end of all transfers") { Fiber.scheduler.statistics[:jobs].zero? }
        assert_equal 13, File.size(path)
        assert_equal "short version", File.binread(path)
      end
    end
  end

  # R1
  def test_reads_after_an_abandoned_one_use_the_given_position
    path = File.join(@folder, "content")
    content = Random.new(3).bytes(400_000)
    File.binwrite(path, content)
    in_loop do
      20.times do |n|
        evict(path)
        leave_in_the_middle(n, ->(file) { file.readpartial(65_536) }, path, "rb") do |file|
          position = file.pos
          assert_includes [0, 65_536], position
          assert_equal content[position, 16], file.read(16)
          file.rewind
          assert_equal content[0, 16], file.read(16)
        end
      end
    end
  end

  # Ruby 3.3 and 3.4 call the scheduler without the interpreter's lock: with a transfer that waits the process hung.
  def test_a_large_pwrite
    content = Random.new(2).bytes(3_000_000)
    in_loop do |scope|
      File.open(File.join(@folder, "written"), "w+b") do |io|
        task = scope.spawn { io.pwrite(content, 10) }
        NB.pass
        written = task.value
        assert_includes 1..content.bytesize, written
        assert_equal "\0" * 10 + content[0, written], io.read
        assert_equal 0, io.pwrite("", 0)
        assert_raises(Errno::EINVAL) { io.pwrite("x", -1) }
        assert_raises(Errno::EINVAL) { io.pread(1, -1) }
        assert_raises(TypeError) { io.pwrite("x", nil) }
        assert_equal 4, io.pwrite(:abcd, 0)
      end
      File.open(File.join(@folder, "written")) { |io| assert_raises(IOError) { io.pwrite("x", 0) } }
      reader, writer = IO.pipe
      assert_raises(Errno::ESPIPE) { writer.pwrite("x", 0) }
      [reader, writer].each(&:close)
    end
  end

  def test_many_at_once
    contents = Array.new(40) { |i| i.chr * 200_000 }
    in_loop do |scope|
      tasks = contents.each_with_index.map { |content, i|
        scope.spawn do
          path = File.join(@folder, i.to_s)
          File.binwrite(path, content)
          evict(path)
          File.binread(path)
        end
      }
      assert_equal contents, tasks.map(&:value)
    end
  end

  # A queued write must not reach a file that has since got its descriptor's number.
  def test_an_abandoned_write_never_reaches_a_file_with_a_reused_number
    in_loop do
      Fiber.blocking do
        @busy = Array.new(16) { |i| File.open(File.join(@folder, "busy#{i}"), "w").tap { |io| io.syswrite("b" * 2_000_000) } }
        @files = Array.new(50) { |i| File.open(File.join(@folder, "file#{i}"), "w").tap { |io| io.sync = true } }
      end
      syncs = @busy.map { |io| NB.spawn { Fiber.scheduler.fsync(io) } }
      NB.pass
      big = "B" * 1_000_000
      writes = @files.map { |io| NB.spawn { io.write(big) } }
      NB.pass
      writes.each(&:cancel)
      writes.each { |task| outcome(task) }
      victims = Fiber.blocking do
        @files.each(&:close)
        Array.new(50) { |i| File.open(File.join(@folder, "victim#{i}"), "w") }
      end
      syncs.each(&:join)
      NB.spawn { Fiber.scheduler.fsync(victims.first) }.join # queued after all abandoned writes
      assert_equal [0], victims.map { |io| io.stat.size }.uniq
      [*@busy, *victims].each(&:close)
    end
  end

  # The kernel goes on writing into the memory of a cancelled read.
  slow "large files"
  def test_cancelled_reads_do_not_write_to_memory
    path = file_of(4_000_000)
    in_loop do
      10.times do
        evict(path)
        tasks = Array.new(10) { NB.spawn { File.read(path) } }
        NB.pass
        tasks.each(&:cancel)
        tasks.each { |task| outcome(task) }
        strings = Array.new(100) { "s" * 100_000 }
        assert strings.all? { |string| string.count("s") == 100_000 }
      end
    end
  end

  # The work uses a duplicate of the descriptor, which Fiber#raise and Fiber#kill wait for.
  def test_fiber_raise_and_kill_leave_no_descriptor_open
    skip "this system does not list descriptors" unless File.directory?("/proc/self/fd")
    work = {"fsync" => ->(io) { Fiber.scheduler.fsync(io) }, "write" => ->(io) { io.write("y" * 1_000_000) }}
    strikes = {"raise" => ->(fiber) { fiber.raise(IOError, "struck") }, "kill" => :kill.to_proc}
    work.to_a.product(strikes.to_a, (1..5).to_a) do |(operation, wait), (strike, call), time| # a thread may not have begun yet
      path = File.join(@folder, "#{operation} #{strike} #{time}")
      in_loop do
        File.open(path, "w") do |io|
          io.sync = true
          io.syswrite("x")
          call.call(Fiber.schedule { wait.call(io) }) # returns once it waits
          assert_equal 1, open_files.count(path), "#{strike} in #{operation}"
        end
      end
    end
  end

  # Ruby and the kernel start no thread.
  def test_transfers_without_a_native_thread
    skip "needs root, to change the user" unless Process.uid.zero?
    skip "gcov complains on standard error that this user can't write its files" if ENV["NEVERBLOCK_COVERAGE"]
    assert_equal "0\ntrue\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "tempfile"
      NeverBlock.run do
        file = Tempfile.create.binmode
        File.unlink(file.path)
        Process::UID.change_privilege(65_534)
        Process.setrlimit(:NPROC, 1)
        content = Random.bytes(3_000_000)
        file.write(content)
        p file.fsync
        file.advise(:dontneed)
        file.rewind
        p file.read == content
      end
    RUBY
  end

  def test_fsync_and_fdatasync
    in_loop do
      File.open(File.join(@folder, "sync"), "w") do |io|
        io.write("x")
        assert_equal 0, Fiber.scheduler.fsync(io)
        assert_equal 0, Fiber.scheduler.fdatasync(io)
      end
      r, w = IO.pipe
      assert_raises(Errno::EINVAL) { Fiber.scheduler.fsync(w) }
      [r, w].each(&:close)
    end
  end

  def test_errors_of_the_file_are_raised
    in_loop do
      File.open(File.join(@folder, "read only"), "w") do |io|
        assert_raises(IOError) { io.read }
        assert_equal(-Errno::EBADF::Errno, Fiber.scheduler.io_read_v3(io, IO::Buffer.new(10), 0, 0))
        assert_equal(-Errno::EBADF::Errno, Fiber.scheduler.io_pread_v3(io, IO::Buffer.new(10), 0, 0, 0))
      end
      File.open(@folder) { |io| assert_raises(Errno::EISDIR) { io.read } }
    end
  end

  private

  # Calls it in a task that is cancelled or timed out meanwhile, alternately; then goes on with the file.
  def leave_in_the_middle(number, call, path, mode = "wb")
    File.open(path, mode) do |file|
      if number.even?
        task = NB.spawn { call.call(file) }
        NB.pass
        task.cancel
        outcome(task)
      else
        begin
          Timeout.timeout(0.0005) { call.call(file) }
        rescue Timeout::Error
          nil
        end
      end
      yield file
    end
  end

  def file_of(size)
    File.join(@folder, "content").tap { |path| File.binwrite(path, "x" * size) }
  end

  # Asks the kernel to forget the file's pages (a file system in memory has none to forget).
  def evict(path)
    Fiber.blocking do
      File.open(path, "r+") do |io|
        io.fsync
        io.advise(:dontneed)
      end
    end
  end
end
