# frozen_string_literal: true

# engines: every - io_uring reads and writes files, the others use threads

require "test_helper"
require_relative "../../support/loops"
require "stringio"
require "tmpdir"

# IO.copy_stream between all kinds of ends, beside a ticking task.
class CopyStreamTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  CONTENT = Random.new(3).bytes(1_500_000)

  def test_file_to_file
    ticking { |folder| copy(File.open(source(folder), "rb"), File.open(File.join(folder, "copy"), "wb")) and File.binread(File.join(folder, "copy")) }
  end

  def test_file_to_socket
    ticking do |folder|
      a, b = UNIXSocket.pair
      reader = NB.spawn { b.read }
      copy(File.open(source(folder), "rb"), a)
      reader.value
    end
  end

  def test_socket_to_file
    ticking do |folder|
      a, b = UNIXSocket.pair
      NB.spawn { a.write(CONTENT) and a.close }
      copy(b, File.open(File.join(folder, "copy"), "wb"))
      File.binread(File.join(folder, "copy"))
    end
  end

  def test_slow_pipe_to_slow_pipe
    ticking do
      (r, w), (r2, w2) = IO.pipe, IO.pipe
      NB.spawn { CONTENT.byteslice(0, 100_000).scan(/.{1,20000}/mn) { |part| nap(0.005) and w.write(part) } and w.close }
      reader = NB.spawn { r2.read }
      copy(r, w2)
      reader.value.b + CONTENT.byteslice(100_000..)
    end
  end

  def test_objects_that_only_read_and_write
    ticking do
      r, w = IO.pipe
      reader = NB.spawn { r.read }
      copy(StringIO.new(CONTENT), w)
      out = StringIO.new("".b)
      assert_equal CONTENT.bytesize, IO.copy_stream(StringIO.new(CONTENT), out)
      assert_equal CONTENT, out.string
      reader.value
    end
  end

  def test_a_stalled_copy_can_be_cancelled
    in_loop do
      r, w = IO.pipe
      r2, w2 = IO.pipe
      w.write("x")
      task = NB.spawn { IO.copy_stream(r, w2) }
      assert_equal "x", r2.readpartial(1)
      task.cancel
      w.close # on Ruby 3.4 a thread copies, and ends at the end of the input
      assert_includes [NeverBlock::Cancelled, 1], outcome(task).then { |result| result.is_a?(Exception) ? result.class : result }
      [r, r2, w2].each(&:close)
    end
  end

  private

  # Runs the block, which returns the copied bytes, and checks that other tasks ran meanwhile.
  def ticking
    Dir.mktmpdir do |folder|
      in_loop do
        gaps, last = [], now
        ticker = NB.spawn do
          loop do
            nap
            gaps << now - last
            last = now
          end
        end
        NB.pass
        assert_equal CONTENT, yield(folder).b
        ticker.cancel
        assert_operator gaps.max || 0, :<, 5, "the loop stood still for longer than a busy machine does"
      end
    end
  end

  def source(folder) = File.join(folder, "source").tap { |path| File.binwrite(path, CONTENT) }

  def copy(from, to)
    IO.copy_stream(from, to)
  ensure
    to.close
    from.close
  end
end
