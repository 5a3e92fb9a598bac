# frozen_string_literal: true

# engines: every - io_uring reads and writes files, the others use threads

require "test_helper"
require "neverblock"
require "pathname"
require "socket"
require "stringio"
require "tempfile"

class CopyStreamPatchTest < Minitest::Test
  def test_a_waiting_copy_can_be_cancelled
    NeverBlock.run do
      reader, writer = IO.pipe # both are referenced: the collection of a writer would end the file
      task = NeverBlock.spawn { IO.copy_stream(reader, writer, 10) }
      NeverBlock.pass until task.waits_for&.include?("readable")
      task.cancel
      task.join
      assert_predicate task, :cancelled?
    end
  end

  def test_from_a_file_to_a_socket
    data = Random.bytes(300_000)
    Tempfile.create do |file|
      file.binmode
      file.write(data)
      file.flush
      assert_equal data, received { |socket| assert_equal data.size, IO.copy_stream(file.path, socket) }
      assert_equal data[100, 1000], received { |socket| assert_equal 1000, IO.copy_stream(file, socket, 1000, 100) }
    end
  end

  def test_from_a_pipe_to_a_path_with_buffered_bytes
    Tempfile.create do |file|
      NeverBlock.run do
        reader, writer = IO.pipe
        writer.write("line\nrest")
        writer.close
        assert_equal "line\n", reader.gets
        assert_equal 4, IO.copy_stream(reader, file.path)
      end
      assert_equal "rest", File.read(file.path)
    end
  end

  CopyStream = NeverBlock::Patches::CopyStream

  # On a Ruby that needs no patch too.
  def test_the_copy_itself
    data = Random.bytes(200_000)
    {[nil, nil] => data, [150_000, nil] => data[0, 150_000], [0, nil] => "", [1_000, 199_900] => data[199_900..], [nil, 100] => data[100..]}.each do |(length, offset), expected|
      Tempfile.create do |file|
        file.binmode.write(data)
        file.rewind
        assert_equal expected, received { |socket| assert_equal expected.bytesize, CopyStream.copy(file, socket, length, offset) }
      end
    end
  end

  def test_which_copies_wait
    reader, writer = IO.pipe
    Tempfile.create do |file|
      assert CopyStream.waits?(reader, writer)
      assert CopyStream.waits?(file.path, writer)
      assert CopyStream.waits?(reader, Pathname(file.path))
      refute CopyStream.waits?(file, file.path), "files are copied by Ruby itself"
      refute CopyStream.waits?(StringIO.new, writer), "so are other objects"
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_other_objects_and_bad_input_are_ruby_s
    NeverBlock.run do
      assert_equal 3, IO.copy_stream(StringIO.new("abc"), target = StringIO.new)
      assert_equal "abc", target.string
      reader, writer = IO.pipe
      NeverBlock.spawn { writer.write("abc") && writer.close }
      assert_equal 3, IO.copy_stream(reader, target = StringIO.new, -1)
      assert_equal "abc", target.string
      reader, writer = IO.pipe
      assert_raises(TypeError) { IO.copy_stream(reader, writer, "1") }
      assert_raises(Errno::ENOENT) { IO.copy_stream("/nowhere/at/all", writer) }
    end
  end

  # R11 of the runtime's review: it raised Encoding::UndefinedConversionError.
  def test_bytes_are_copied_as_they_are_whatever_the_encodings
    bytes = (0..255).map(&:chr).join.b
    Tempfile.create do |file|
      NeverBlock.run do
        reader, writer = IO.pipe
        writer.binmode.write(bytes)
        writer.close
        File.open(file.path, "w:UTF-16LE") { |target| assert_equal 256, IO.copy_stream(reader, target) }
        reader.close
      end
      assert_equal bytes, File.binread(file.path)
    end
  end

  private

  def received
    NeverBlock.run do
      ours, theirs = UNIXSocket.pair
      reader = NeverBlock.spawn { theirs.read }
      yield ours
      ours.close
      reader.value
    end
  end
end
