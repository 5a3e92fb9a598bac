# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class SemaphoreTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_size_is_a_positive_integer
    assert_equal 3, NB::Semaphore.new(3).size
    [0, -1, 1.0, "1", nil].each do |size|
      error = assert_raises(ArgumentError) { NB::Semaphore.new(size) }
      assert_equal "size: #{size.inspect} is not a whole number, 1 or more", error.message
    end
    assert_raises(ArgumentError) { NB::Semaphore.new }
  end

  def test_at_most_size_hold_a_place_at_once
    semaphore, running, most = NB::Semaphore.new(3), 0, 0
    in_run do |scope|
      20.times do
        scope.spawn do
          semaphore.acquire do
            most = [most, running += 1].max
            sleep 1
            running -= 1
          end
        end
      end
    end
    assert_equal [3, 0, 3], [most, running, semaphore.available]
    assert_in_delta 7, clock.elapsed
  end

  def test_acquire_returns_the_blocks_value_and_always_releases
    semaphore = NB::Semaphore.new(1)
    assert_equal :value, semaphore.acquire { :value }
    raised { semaphore.acquire { raise "no" } }
    catch(:out) { semaphore.acquire { throw :out } }
    assert_equal 1, semaphore.available
  end

  def test_without_a_block
    semaphore = NB::Semaphore.new(2)
    assert_equal true, semaphore.acquire
    assert_equal 1, semaphore.available
    assert_same semaphore, semaphore.release
    assert_equal 2, semaphore.available
    assert_match(/no place of this semaphore \(size 2\) is held/, assert_raises(ThreadError) { semaphore.release }.message)
  end

  def test_try_acquire
    semaphore = NB::Semaphore.new(1)
    assert_equal [true, false], [semaphore.try_acquire, semaphore.try_acquire]
    semaphore.release
    assert_equal true, semaphore.try_acquire
  end

  def test_timeout
    semaphore = NB::Semaphore.new(1).tap(&:acquire)
    {
      "5" => -> { in_run { semaphore.acquire(timeout: 5) } },
      "0.005" => -> { semaphore.acquire(timeout: 0.005) },
      "0" => -> { semaphore.acquire(timeout: 0) }
    }.each do |seconds, call|
      error = raised(&call)
      assert_kind_of NeverBlock::TimeoutError, error
      assert_match(/no place in the semaphore of 1 became free within #{seconds} s/, error.message)
    end
    assert_in_delta 5, clock.elapsed
    semaphore.release
    assert_equal 1, semaphore.available
    assert_equal :got, semaphore.acquire(timeout: 1) { :got }
  end

  def test_a_bad_timeout
    semaphore = NB::Semaphore.new(1)
    ["1", -1].each { |timeout| assert_match(/timeout: .* is not a number/, assert_raises(ArgumentError) { semaphore.acquire(timeout:) }.message) }
    assert_equal 1, semaphore.available
  end

  def test_first_come_first_served
    semaphore, log = NB::Semaphore.new(1), []
    in_run do |scope|
      semaphore.acquire
      5.times { |n| scope.spawn { semaphore.acquire { (log << n) && NB.pass } } }
      NB.pass
      semaphore.release
    end
    assert_equal [0, 1, 2, 3, 4], log
  end

  def test_a_task_that_acquires_again_at_once_does_not_starve_the_others
    semaphore, turns, served = NB::Semaphore.new(1), 0, nil
    in_run do |scope|
      scope.spawn do
        until served || turns > 1_000
          semaphore.acquire { NB.pass }
          turns += 1
        end
      end
      scope.spawn { semaphore.acquire { served = turns } }
    end
    assert_operator served, :<, 3
  end

  def test_a_cancelled_waiter_passes_its_turn_on
    semaphore, log = NB::Semaphore.new(1), []
    in_run do |scope|
      semaphore.acquire
      first = parked(scope.spawn { semaphore.acquire { log << :never } })
      scope.spawn { semaphore.acquire { log << :second } }
      NB.pass
      semaphore.release # its turn has come …
      first.cancel # … as has its end
      pass_until("the second's turn") { log.any? }
    end
    assert_equal 1, semaphore.available
    assert_includes [[:second], [:never, :second]], log
  end

  def test_cancelled_and_timed_out_waiters_leave_the_queue
    semaphore = NB::Semaphore.new(2)
    in_run do |scope|
      2.times { semaphore.acquire }
      tasks = Array.new(50) { scope.spawn { semaphore.acquire { sleep 1 } } }
      tasks += Array.new(50) { scope.spawn { raised { semaphore.acquire(timeout: 10) { sleep 1 } } } }
      NB.pass
      tasks.each_slice(3) { |one, *| one.cancel }
      sleep 20
      2.times { semaphore.release }
    end
    assert_equal 2, semaphore.available
  end

  def test_between_threads_and_loops
    semaphore, running, most, lock = NB::Semaphore.new(2), 0, 0, Mutex.new
    others_run = proc { NB.pass || Thread.pass }
    hold = lambda do
      semaphore.acquire do
        lock.synchronize { most = [most, running += 1].max }
        others_run.call until most == 2
        10.times(&others_run)
        lock.synchronize { running -= 1 }
      end
    end
    threads = Array.new(3) { Thread.new { 5.times { hold.call } } }
    threads += Array.new(3) { Thread.new { NeverBlock.run { |scope| 5.times { scope.spawn { hold.call } } } } }
    threads.each { |thread| assert thread.join(20) }
    assert_equal [2, 0, 2], [most, running, semaphore.available]
  end

  # Another thread returns it after the waiter has looked, and before it is in the queue.
  def test_a_place_that_becomes_free_between_two_looks_is_taken
    semaphore = NB::Semaphore.new(1)
    semaphore.define_singleton_method(:try_acquire) { false }
    assert semaphore.acquire(timeout: 0)
    assert_equal 0, semaphore.available
    assert_raises(NeverBlock::TimeoutError) { semaphore.acquire(timeout: 0) }
    semaphore.release
    assert_equal 1, semaphore.available
  end

  # The tasks that hold the places don't exist there, and neither do those that wait.
  def test_in_a_forked_child_all_places_are_free
    assert_equal "[[0, 1], [1, 0]]\n", assert_ruby(<<~RUBY)
      require "neverblock"
      semaphore = NeverBlock::Semaphore.new(1)
      NeverBlock.run(exit: :cancel) do |scope|
        2.times { scope.spawn { semaphore.acquire { sleep } } }
        NB.pass
        before = [semaphore.available, scope.tasks.count { |task| task.waits_for.to_s.include?("Turn") }]
        reader, writer = IO.pipe
        Process.wait(fork do
          looks = [semaphore.available, NeverBlock.run { |run| semaphore.acquire { semaphore.available } }]
          writer.puts looks.inspect
        end)
        p [before, eval(reader.gets)]
      end
    RUBY
  end

  def test_a_block_that_forks_gives_its_place_back_in_the_parent_only
    assert_equal "[1, 1]\n", assert_ruby(<<~RUBY)
      require "neverblock"
      semaphore = NeverBlock::Semaphore.new(1)
      pid = semaphore.acquire { fork } || exit!(semaphore.available)
      p [semaphore.available, Process.wait2(pid).last.exitstatus]
    RUBY
  end

  def test_the_description_of_a_wait
    in_run(exit: :cancel) do |scope|
      semaphore = NB::Semaphore.new(1).tap(&:acquire)
      assert_equal "#<NeverBlock::Semaphore::Turn>", parked(scope.spawn { semaphore.acquire }).waits_for
    end
  end
end
