# frozen_string_literal: true

# engines: every - a wake-up of another thread ends the back end's wait

require "test_helper"
require "support/loops"

# block and unblock: wake-ups from other threads. On the real clock, because the loop must sleep in the kernel.
class BlockThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_unblock_by_a_thread
    standalone do |s|
      main = Fiber.current
      gate = Queue.new
      thread = Thread.new { gate.pop and s.unblock(:x, main) }
      open_later(gate)
      assert_equal true, s.block(:x, 10)
      thread.join
    end
  end

  def test_unblock_next_by_a_thread
    standalone do |s|
      main = Fiber.current
      gate = Queue.new
      thread = Thread.new { gate.pop and s.unblock_next(:x, main) }
      open_later(gate)
      assert_equal true, s.block(:x, 10)
      thread.join
      s.unblock_next(:x, Fiber.current)
      assert_equal true, s.block(:x, 10), "it came before the block"
    end
  end

  slow "threads take turns"
  def test_wake_ups_from_threads
    in_loop do
      requests, answers = Queue.new, Queue.new
      threads = Array.new(3) { Thread.new { while (n = requests.pop) do answers << n end } }
      tasks = Array.new(4) do
        NB.spawn { Array.new(2_500) { |i| requests << i and answers.pop }.sum }
      end
      assert_equal 4 * 2_500 * 2_499 / 2, tasks.sum(&:value)
      3.times { requests << nil }
      threads.each(&:join)
    end
  end

  # Native threads post without Ruby's lock, at any moment before the loop sleeps.
  def test_wake_ups_from_native_threads
    in_loop do
      scheduler = Fiber.scheduler
      tasks = Array.new(4) do
        NB.spawn { 2_500.times { scheduler.getaddrinfo("127.0.0.1", nil, Socket::AF_INET, Socket::SOCK_STREAM, 0, Socket::AI_NUMERICHOST) } }
      end
      tasks.each(&:join)
      assert_equal 0, scheduler.statistics[:jobs]
    end
  end

  def test_loops_that_wake_one_another
    to_left, to_right = Queue.new, Queue.new
    right = Thread.new { NeverBlock.run { NB.spawn { 3_000.times { to_left << to_right.pop } } } }
    on_thread { NeverBlock.run { NB.spawn { 3_000.times { |i| to_right << i and to_left.pop == i or raise "order" } } } }
    assert right.join(NeverBlockTest::LIMIT)
  end

  private

  # Opens the gate when the calling fiber waits.
  def open_later(gate)
    Fiber.schedule do
      NB.pass
      gate << true
    end
  end
end
