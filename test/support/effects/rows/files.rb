# frozen_string_literal: true

# Regular files. Files to read are not in memory and files to write are synchronous, so that each transfer takes a
# moment.
module NeverBlockTest
  module Effects
    CONTENT = Random.new(1).bytes(300_000).freeze

    # Files for the rows below.
    module Files
      def evicted_file(mode = "rb")
        path = "#{folder}/content"
        File.open(path, "wb") do |file|
          file.write(CONTENT)
          file.fsync
          file.advise(:dontneed)
        end
        close_finally(File.open(path, mode))
      end

      def synchronous_file = close_finally(File.open("#{folder}/written", File::RDWR | File::CREAT | File::DSYNC | File::BINARY))

      # A read that was waited for moved the position, a withdrawn one did not; no later read is disturbed.
      def check_reading(file, size: CONTENT.bytesize)
        assert_bytes CONTENT[0, size], value if returned?
        position = file.pos
        assert_equal returned? ? size : 0, position
        assert_equal CONTENT[position, 16], file.read(16) if position + 16 <= CONTENT.bytesize
        file.rewind
        assert_equal CONTENT[0, 16], file.read(16)
      end

      # A write that was waited for is in the file as a whole, a withdrawn one not at all; the next write is the only
      # other content.
      def check_writing(file, at: 0)
        assert_equal CONTENT.bytesize, value if returned?
        assert_bytes (returned? ? "\0" * at + CONTENT : ""), File.binread(file.path)
        file.rewind
        file.truncate(0)
        file.write("short version")
        file.flush
        settle
        assert_equal "short version", File.binread(file.path)
      end
    end
    Cell.include Files

    row "`IO#read(length)` of a file", :waited_for do
      file = evicted_file
      operation(:job, brief: true) { file.read(CONTENT.bytesize) }
      check { check_reading(file) }
    end

    row "`IO#readpartial` of a file", :waited_for do
      file = evicted_file
      operation(:job, brief: true) { file.readpartial(CONTENT.bytesize) }
      check { check_reading(file) }
    end

    row "`IO#sysread` of a file", :waited_for do
      file = evicted_file
      operation(:job, brief: true) { file.sysread(CONTENT.bytesize) }
      check { check_reading(file) }
    end

    row "`IO#gets` of a file", :waited_for do
      file = evicted_file
      operation(:job, brief: true) { file.gets }
      check do
        assert_equal CONTENT.lines.first, value if returned?
        assert_bytes CONTENT.byteslice(value.to_s.bytesize..), file.read
      end
    end

    row "`IO#each_line`, `IO#readlines` of a file", :waited_for, calls: [->(file, lines) { file.each_line { |line| lines << line } }, ->(file, _) { file.readlines }] do |act|
      file, lines = evicted_file, []
      operation(:job, brief: true, value: false) { act.call(file, lines) }
      check do
        assert_equal CONTENT.lines.first(lines.size), lines
        position = file.pos
        assert_operator position, :>=, lines.sum(&:bytesize)
        assert_bytes CONTENT.byteslice(position..), file.read
      end
    end

    row "`IO#pread`, `IO::Buffer#pread`", :waited_for,
      calls: [->(file) { file.pread(1000, 100_000) }, ->(file) { IO::Buffer.for(+"\0" * 1000) { |buffer| buffer.pread(file, 100_000) && buffer.get_string } }] do |act|
      file = evicted_file
      operation(:job, brief: true) { act.call(file) }
      check do
        assert_bytes CONTENT[100_000, 1000], value if returned?
        assert_equal CONTENT[0, 16], file.read(16)
      end
    end

    row "`File.read`, `File.readlines`, `File.foreach`", :waited_for, calls: %i[binread readlines foreach] do |name|
      path = evicted_file.path
      operation(:job, brief: true, value: false) { File.public_send(name, path) { nil } }
      check { assert_bytes CONTENT, File.binread(path) }
    end

    row "`IO#write` to a file", :waited_for do
      file = synchronous_file
      operation(:job, brief: true) { file.write(CONTENT) }
      check { check_writing(file) }
    end

    row "`IO#syswrite` to a file", :waited_for do
      file = synchronous_file
      operation(:job, brief: true) { file.syswrite(CONTENT) }
      check { check_writing(file) }
    end

    row "`IO#pwrite`, `IO::Buffer#pwrite`", :waited_for, calls: [->(file) { file.pwrite(CONTENT, 5000) }, ->(file) { IO::Buffer.for(CONTENT).pwrite(file, 5000) }] do |act|
      file = synchronous_file
      operation(:job, brief: true) { act.call(file) }
      check { check_writing(file, at: 5000) }
    end

    row "`IO#write` to a file, after buffered bytes", :waited_for do
      file = close_finally(File.open("#{folder}/written", "w+b"))
      file.write("buffered")
      operation(:job, brief: true, value: false) { file.write(CONTENT * 8) }
      check do
        file.write("end")
        file.flush
        written = File.binread(file.path)
        assert_bytes "buffered" + (CONTENT * 8)[0, written.bytesize - 11] + "end", written
      end
    end

    %w[fsync fdatasync].each do |name|
      row "`IO##{name}`", :waited_for do
        file = close_finally(File.open("#{folder}/written", "wb"))
        file.write(CONTENT)
        file.flush
        operation(:job, brief: true, value: false) { file.public_send(name) }
        check do
          file.write("more")
          assert_equal 0, file.public_send(name)
          assert_bytes "#{CONTENT}more", File.binread(file.path)
        end
      end
    end

    row "`File#flock`", :interrupted do
      path = "#{folder}/lock"
      holder, waiter, third = Array.new(3) { close_finally(File.open(path, "w")) }
      holder.flock(File::LOCK_EX)
      operation(:job) { waiter.flock(File::LOCK_EX) }
      check do
        holder.flock(File::LOCK_UN)
        others_first
        assert_equal 0, third.flock(File::LOCK_EX | File::LOCK_NB), "the lock was given to a waiter that had left"
        third.flock(File::LOCK_UN)
        assert_equal 0, waiter.flock(File::LOCK_EX)
      end
    end

    OPENING = [File.method(:open), ->(path, mode) { IO.for_fd(IO.sysopen(path, mode), mode) }].freeze

    row "`File.open`, `IO.sysopen` of a FIFO (Ruby 3.4 and later)", :interrupted, since: "3.4", calls: OPENING do |act|
      path = "#{folder}/fifo"
      File.mkfifo(path)
      operation(:job) { close_finally(act.call(path, "r")) }
      check do
        assert_equal Errno::ENXIO, raised { File.open(path, File::WRONLY | File::NONBLOCK) }.class, "a reader is left"
        File.open(path, "r+") { |fifo| assert_equal "line\n", ((fifo << "line\n") && fifo.gets) }
      end
    end
  end
end
