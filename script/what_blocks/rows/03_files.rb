# frozen_string_literal: true

require "fcntl"
require "fileutils"
require "find"
require "io/console"
require "pathname"
require "tempfile"

# Regular files, folders, and the special files whose opening waits.
WhatBlocks::Catalogue.define "Files" do
  quick("File.open") { measure(File, file) { |path| File.open(path) } }
  quick("IO#close", "file") { measure(nil, File.open(file)) { |opened| opened.close } }
  quick("File.read") { measure("content\n", file) { |path| File.read(path) } }
  quick("File.binread", "a piece of 10 MB") do
    path = file("x" * 10_000_000)
    measure("x" * 5_000_000) { File.binread(path, 5_000_000, 100) }
  end
  quick("File.write") { measure(3, file) { |path| File.write(path, "abc") } }
  quick("File.readlines") { measure(["content\n"], file) { |path| File.readlines(path) } }
  quick("File.foreach") { measure(["content\n"], file) { |path| File.foreach(path).to_a } }
  quick("IO#read", "file") { measure("content\n", File.open(file)) { |opened| opened.read } }
  quick("IO#read", "file of a system that cannot tell whether it would block (/proc)") do
    measure(/^Pid:/, File.open("/proc/self/status")) { |opened| opened.read }
  end
  quick("IO#gets", "file") { measure("content\n", File.open(file)) { |opened| opened.gets } }
  quick("IO#write", "file, sync") do
    opened = File.open(file, "w").tap { |io| io.sync = true }
    measure(3) { opened.write("abc") }
  end
  quick("IO#flush", "file") do
    opened = File.open(file, "w").tap { |io| io << "abc" }
    measure(opened) { opened.flush }
  end
  quick("IO#sysread", "file") { measure("content\n", File.open(file)) { |opened| opened.sysread(100) } }
  quick("IO#syswrite", "file") { measure(3, File.open(file, "w")) { |opened| opened.syswrite("abc") } }
  quick("IO#pread") { measure("ten", File.open(file)) { |opened| opened.pread(3, 3) } }
  quick("IO#pwrite") { measure(3, File.open(file, "w")) { |opened| opened.pwrite("abc", 5) } }
  quick("IO#fsync") { measure(0, File.open(file, "w").tap { |io| io << "a" }) { |opened| opened.fsync } }
  quick("IO#fdatasync") { measure(0, File.open(file, "w").tap { |io| io << "a" }) { |opened| opened.fdatasync } }
  quick("IO#seek") { measure(0, File.open(file)) { |opened| opened.seek(3) } }
  quick("IO#advise") { measure(nil, File.open(file)) { |opened| opened.advise(:willneed) } }
  quick("File#truncate") { measure(0, File.open(file, "w")) { |opened| opened.truncate(3) } }
  quick("IO::Buffer#pread") do
    opened = File.open(file)
    measure(Integer) { IO::Buffer.new(16).pread(opened, 0, 4) }
  end
  quick("IO::Buffer#pwrite") do
    opened = File.open(file, "w")
    measure(3) { IO::Buffer.for("abc").pwrite(opened, 0, 3) }
  end
  quick("IO::Buffer.map") { measure(IO::Buffer, File.open(file)) { |opened| IO::Buffer.map(opened, nil, 0, IO::Buffer::READONLY) } }

  quick("File#flock", "free") { measure(0, File.open(file)) { |opened| opened.flock(File::LOCK_EX) } }
  quick("File#flock", "held by another process, LOCK_NB") do
    path = file
    ruby("File.open(#{path.dump}).tap { |f| f.flock(File::LOCK_EX); puts; sleep 1 }")
    opened = File.open(path)
    measure(false) { opened.flock(File::LOCK_EX | File::LOCK_NB) }
  end
  waits("File#flock", "held by another process") do
    path = file
    ruby("File.open(#{path.dump}).tap { |f| f.flock(File::LOCK_EX); puts; #{ruby_pause(WhatBlocks::Stage::GATE)} }")
    opened = File.open(path)
    measure(0) { opened.flock(File::LOCK_EX) }
  end
  waits("File#flock", "held by another fiber") do
    path = file
    holder = File.open(path).tap { |io| io.flock(File::LOCK_EX) }
    Fiber.schedule do
      pause
      holder.flock(File::LOCK_UN)
    end
    opened = File.open(path)
    measure(0) { opened.flock(File::LOCK_EX) }
  end
  waits("IO#fcntl", "F_SETLKW, held by another process") do
    path = file
    lock = [Fcntl::F_WRLCK, IO::SEEK_SET, 0, 0, 0].pack("ssx4qqix4")
    ruby("File.open(#{path.dump}, 'r+').tap { |f| f.fcntl(#{Fcntl::F_SETLK}, #{lock.dump}); puts; #{ruby_pause(WhatBlocks::Stage::GATE)} }")
    opened = File.open(path, "r+")
    measure(0) { opened.fcntl(7, lock) } # F_SETLKW, which Fcntl has not
  end

  waits("File.open", "FIFO, to read") do
    path = fifo
    later { File.open(path, "w").close }
    measure(File) { File.open(path) }
  end
  waits("File.open", "FIFO, to write") do
    path = fifo
    later { File.open(path).close }
    measure(File) { File.open(path, "w") }
  end
  waits("File.read", "FIFO") do
    path = fifo
    later { File.write(path, "abc") }
    measure("abc") { File.read(path) }
  end
  waits("File.write", "FIFO") do
    path = fifo
    later { File.read(path) }
    measure(3) { File.write(path, "abc") }
  end
  waits("IO.sysopen", "FIFO") do
    path = fifo
    later { File.open(path, "w").close }
    measure(Integer) { IO.sysopen(path) }
  end
  waits("IO#gets", "FIFO, opened before") do
    path = fifo
    opened = File.open(path, "r+")
    later { File.write(path, "abc\n") }
    measure("abc\n") { opened.gets }
  end

  quick("File.stat") { measure(File::Stat, file) { |path| File.stat(path) } }
  quick("File.exist?") { measure(true, file) { |path| File.exist?(path) } }
  quick("File.realpath") { measure(String, file) { |path| File.realpath(path) } }
  quick("File.rename") { measure(0, file) { |path| File.rename(path, "#{path}.new") } }
  quick("File.unlink") { measure(1, file) { |path| File.unlink(path) } }
  quick("File.symlink") { measure(0, file) { |path| File.symlink(path, "#{path}.new") } }
  quick("File.chmod") { measure(1, file) { |path| File.chmod(0o600, path) } }
  quick("File.utime") { measure(1, file) { |path| File.utime(Time.now, Time.now, path) } }
  quick("File.truncate") { measure(0, file) { |path| File.truncate(path, 3) } }
  quick("File.mkfifo") { measure(0, File.join(folder, "fifo")) { |path| File.mkfifo(path) } }
  quick("Tempfile.create") { measure(File) { Tempfile.create } }
  quick("Pathname#read") { measure("content\n", file) { |path| Pathname(path).read } }

  quick("Dir.mkdir") { measure(0, File.join(folder, "new")) { |path| Dir.mkdir(path) } }
  quick("Dir.rmdir") { measure(0, folder) { |path| Dir.rmdir(path) } }
  quick("Dir.children") { measure(["file"], File.dirname(file)) { |path| Dir.children(path) } }
  quick("Dir.each_child") { measure(["file"], File.dirname(file)) { |path| Dir.each_child(path).to_a } }
  quick("Dir.glob", "a tree of 500 files") do
    path = folder
    50.times do |branch|
      FileUtils.mkdir_p(File.join(path, branch.to_s))
      10.times { |leaf| File.write(File.join(path, branch.to_s, leaf.to_s), "") }
    end
    measure(550) { Dir.glob(File.join(path, "**", "*")).size }
  end
  quick("Dir.chdir") { measure(0, folder) { |path| Dir.chdir(path) } }
  quick("Dir.mktmpdir") { measure(String) { Dir.mktmpdir } }
  quick("Find.find") { measure(2, File.dirname(file)) { |path| Find.find(path).count } }
  quick("FileUtils.cp") { measure(nil, file) { |path| FileUtils.cp(path, "#{path}.copy") } }
  quick("FileUtils.mv") { measure(0, file) { |path| FileUtils.mv(path, "#{path}.moved") } }
  quick("FileUtils.mkdir_p") { measure(Array, File.join(folder, "a", "b")) { |path| FileUtils.mkdir_p(path) } }
  quick("FileUtils.rm_rf") { measure(Array, File.dirname(file)) { |path| FileUtils.rm_rf(path) } }
end
