# frozen_string_literal: true

# engines: every - the end of a wait in the back end

require "test_helper"
require "stringio"
require "support/loops"

# IO#close of a stream that fibers, other threads and other loops use. On the real clock, because the loop must sleep in
# the kernel until the others have left.
class CloseTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_close_waits_for_a_thread_that_uses_the_io
    in_loop do
      reader, writer = IO.pipe
      thread = quiet_thread { reader.read }
      pass_until("the thread reads") { thread.status == "sleep" }
      reader.close
      assert_kind_of IOError, outcome(thread)
      writer.close
    end
  end

  def test_close_waits_for_fibers_that_use_the_io
    in_loop do
      reader, writer = IO.pipe
      tasks = Array.new(3) { NB.spawn { reader.read(1) } }
      NB.pass
      reader.close
      assert_equal [IOError], tasks.map { |task| outcome(task).class }.uniq
      writer.close
    end
  end

  def test_close_waits_for_another_loop_that_uses_the_io
    in_loop do
      reader, writer = IO.pipe
      waits = Queue.new
      thread = quiet_thread { NeverBlock.run { waits << 1 and reader.read } }
      waits.pop
      pass_until("the other loop is idle") { thread.status == "sleep" }
      reader.close
      assert_kind_of IOError, outcome(thread)
      writer.close
    end
  end

  # Up to Ruby 3.4 the closing fiber may wait for a mutex that Ruby hides: an object without a class.
  def test_a_fiber_that_closes_can_be_described
    in_loop do
      reader, writer = IO.pipe
      gate, left = Thread::Queue.new, false
      thread = quiet_thread { assert_raises(IOError) { reader.read } and (left = true) and gate.pop }
      pass_until("the thread reads") { thread.status == "sleep" }
      closer = NB.spawn { reader.close }
      pass_until("the thread leaves") { left }
      3.times { NB.pass }
      assert_match(/Task/, closer.inspect)
      NeverBlock.dump(text = StringIO.new)
      assert_match(/loop of/, text.string)
      gate << true
      closer.join
      writer.close
    end
  end

  # The threads that leave hold the mutex that the closing fiber waits for, and unblock it meanwhile.
  def test_close_while_many_threads_use_the_io
    in_loop do
      20.times do
        reader, writer = IO.pipe
        threads = Array.new(8) { quiet_thread { reader.read } }
        pass_until("all threads read") { threads.all? { |thread| thread.status == "sleep" } }
        reader.close
        assert_equal [IOError], threads.map { |thread| outcome(thread).class }.uniq
        writer.close
      end
    end
  end

  private

  def quiet_thread(&block) = Thread.new(&block).tap { |thread| thread.report_on_exception = false }
end
