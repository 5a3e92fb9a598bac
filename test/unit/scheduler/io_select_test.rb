# frozen_string_literal: true

# engines: every - the back end watches the descriptors

require "test_helper"
require "support/loops"
require "support/virtual_time"

# IO.select in a loop: one park for any number of descriptors.
class SelectTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def test_ready_at_once
    in_loop do
      IO.pipe do |r, w|
        assert_equal [[], [w], []], IO.select([r], [w])
        w.write("x")
        assert_equal [[r], [w], []], IO.select([r], [w], [r])
      end
    end
  end

  def test_ready_later
    in_loop do
      pairs = Array.new(5) { IO.pipe }
      readers = pairs.map(&:first)
      NB.spawn { sleep(1) and pairs[3][1].write("x") }
      assert_equal(1.0, seconds_of { assert_equal [[readers[3]], [], []], IO.select(readers, nil, nil, 10) })
      pairs.flatten.each(&:close)
    end
  end

  def test_timeouts
    in_loop do
      IO.pipe do |r, _w|
        assert_equal(3.0, seconds_of { assert_nil IO.select([r], nil, nil, 3) })
        assert_equal(0.0, seconds_of { assert_nil IO.select([r], nil, nil, 0) })
        assert_equal(0.1, seconds_of { assert_nil IO.select(nil, nil, nil, 0.1) })
        assert_raises(ArgumentError) { IO.select([r], nil, nil, -1) }
        assert_raises(TypeError) { IO.select([1]) }
        assert_raises(TypeError) { IO.select(r) }
      end
    end
  end

  def test_buffered_input_is_ready
    in_loop do
      IO.pipe do |r, w|
        w.write("one\ntwo\n")
        assert_equal "one\n", r.gets
        assert_equal [[r], [], []], IO.select([r], nil, nil, 1)
        assert_equal [[r], [w], []], IO.select([r], [w], nil, 1)
      end
    end
  end

  def test_objects_with_to_io_are_returned_unchanged
    in_loop do
      IO.pipe do |r, w|
        wrapper = Struct.new(:to_io).new(r)
        w.write("x")
        assert_equal [[wrapper], [], []], IO.select([wrapper])
      end
    end
  end

  def test_one_descriptor_several_times
    in_loop do
      a, b = UNIXSocket.pair
      assert_equal [[], [a, a], []], IO.select([a], [a, a])
      b.write("x")
      assert_equal [[a, a], [a], []], IO.select([a, a], [a])
      [a, b].each(&:close)
    end
  end

  def test_files_are_always_ready
    in_loop do
      File.open(__FILE__) { |file| assert_equal [[file], [], []], IO.select([file]) }
      File.open(File::NULL, "w") { |file| assert_equal [[], [file], []], IO.select(nil, [file]) }
    end
  end

  def test_closed_streams_are_refused
    in_loop do
      r, w = IO.pipe
      [r, w].each(&:close)
      assert_raises(IOError) { IO.select([r]) }
    end
  end

  def test_many_selects_of_the_same
    in_loop do
      IO.pipe do |r, w|
        tasks = Array.new(20) { NB.spawn { IO.select([r], nil, nil, 10) } }
        NB.pass
        w.write("x")
        assert_equal [[[r], [], []]], tasks.map(&:value).uniq
      end
    end
  end

  def test_cancelled_selects_leave_nothing
    in_loop do
      pairs = Array.new(10) { IO.pipe }
      task = NB.spawn { IO.select(pairs.map(&:first)) }
      NB.pass
      assert_equal 10, Fiber.scheduler.statistics[:interests]
      task.cancel
      outcome(task)
      assert_equal 0, Fiber.scheduler.statistics[:interests]
      pairs.flatten.each(&:close)
    end
  end

  def test_arrays_that_change_while_it_waits
    in_loop do
      IO.pipe do |r, w|
        list = [r]
        task = NB.spawn { IO.select(list) }
        NB.pass
        list.clear
        GC.start
        w.write("x")
        assert_equal [[r], [], []], task.value
      end
    end
  end
end
