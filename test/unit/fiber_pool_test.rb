# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class FiberPoolTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_size
    assert_equal 50, NB::FiberPool.new.size
    assert_equal 2, NB::FiberPool.new(2).size
    [0, -1, 1.0, "1", nil].each do |size|
      error = assert_raises(ArgumentError) { NB::FiberPool.new(size) }
      assert_equal "size: #{size.inspect} is not a whole number, 1 or more", error.message
    end
  end

  def test_at_most_size_run_and_the_rest_queue_in_order
    running, most, log, gate = 0, 0, [], Thread::Queue.new
    in_run do
      pool = NB::FiberPool.new(3)
      10.times do |n|
        pool.spawn do
          log << n
          most = [most, running += 1].max
          gate.pop
          sleep 1
          running -= 1
        end
      end
      pass_until("three to run") { gate.num_waiting == 3 }
      assert_equal({size: 3, running: 3, queued: 7, finished: 0, failed: 0}, pool.stats)
      gate.close
      assert_same pool, pool.drain
      assert_equal({size: 3, running: 0, queued: 0, finished: 10, failed: 0}, pool.stats)
    end
    assert_equal [3, (0..9).to_a], [most, log]
  end

  def test_the_end_of_run_waits_for_the_pool
    count = 0
    in_run { NB::FiberPool.new(2).then { |pool| 10.times { pool.spawn { sleep(1) && count += 1 } } } }
    assert_equal 10, count
    assert_in_delta 5, clock.elapsed
  end

  def test_spawn_returns_a_task_and_passes_arguments
    in_run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep 1 }
      task = pool.spawn(1, 2, name: "sum") { |one, two| one + two }
      assert_equal ["sum", :new], [task.name, task.state]
      assert_equal 3, task.value
      assert_match(/fiber_pool_test.rb:\d+/, task.spawned_at)
      assert_match(/needs a block/, assert_raises(ArgumentError) { pool.spawn }.message)
    end
  end

  def test_outside_a_loop_blocks_run_at_once
    pool, log = NB::FiberPool.new(1), []
    tasks = Array.new(3) { |n| pool.spawn(n) { |mine| (log << mine) && mine } }
    assert_equal [0, 1, 2], log
    assert_equal [0, 1, 2], tasks.map(&:value)
    assert_equal [:returned] * 3, tasks.map(&:state)
    assert_same pool, pool.drain
    assert_equal "no", raised { pool.spawn { raise "no" } }.message
  end

  def test_a_blocking_section_is_outside
    in_run { assert_equal :returned, NB.neverblock(false) { NB::FiberPool.new.spawn {} }.state }
  end

  def test_a_failure_fails_the_scope_and_empties_the_queue
    log, pool = [], NB::FiberPool.new(1)
    error = raised do
      in_run do
        pool.spawn { sleep(1) && raise("no") }
        5.times { pool.spawn { log << :never } }
      end
    end
    assert_equal "no", error.message
    assert_empty log
    assert_equal({size: 1, running: 0, queued: 0, finished: 6, failed: 1}, pool.stats)
  end

  def test_reported_failures_do_not_stop_the_pool
    count, seen = 0, []
    in_run(on_error: ->(error) { seen << error.message }) do
      pool = NB::FiberPool.new(2)
      10.times { |n| pool.spawn { n.odd? ? raise("no") : count += 1 } }
      pool.drain
      assert_equal 5, pool.stats[:failed]
    end
    assert_equal [5, 5], [count, seen.size]
  end

  def test_cancelling_running_and_queued_tasks_makes_room
    in_run do
      pool = NB::FiberPool.new(1)
      running = pool.spawn { sleep }
      queued = Array.new(3) { pool.spawn { flunk "it ran" } }
      last = pool.spawn { :last }
      NB.pass
      queued.each(&:cancel)
      running.cancel
      assert_equal :last, last.value
      assert_equal({size: 1, running: 0, queued: 0, finished: 5, failed: 0}, pool.stats)
    end
  end

  def test_tasks_of_the_pool_spawn_into_it
    log = []
    in_run do
      pool = NB::FiberPool.new(1)
      pool.spawn { pool.spawn { pool.spawn { log << 3 } && log << 2 } && log << 1 }
      NB.pass
      pool.drain
      assert_equal [1, 2, 3], log
    end
  end

  def test_one_pool_from_several_scopes
    log = []
    in_run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep(1) && log << :outer }
      NeverBlock.run { pool.spawn { log << :inner } }
      assert_equal [:outer, :inner], log
    end
  end

  def test_drain
    in_run do |scope|
      pool = NB::FiberPool.new(1)
      assert_same pool, pool.drain
      task = pool.spawn { sleep }
      assert_nil pool.drain(0)
      assert_nil pool.drain(3)
      assert_in_delta 3, clock.elapsed
      drains = Array.new(3) { scope.spawn { pool.drain } }
      NB.pass
      task.cancel
      assert_equal [pool] * 3, drains.map(&:value)
      ["1", -1].each { |limit| assert_raises(ArgumentError) { pool.drain(limit) } }
    end
  end

  def test_drain_from_another_thread
    in_run do
      pool = NB::FiberPool.new(1)
      gate = Thread::Queue.new
      pool.spawn { gate.pop }
      thread = Thread.new { pool.drain }
      pass_until("the thread to wait") { thread.status == "sleep" }
      gate << :go
      assert_same pool, thread.value
    end
  end

  def test_inspect
    assert_equal "#<NeverBlock::FiberPool size 2, running 0, queued 0, finished 0, failed 0>", NB::FiberPool.new(2).inspect
  end

  def test_a_pool_outlives_a_run
    pool = NB::FiberPool.new(1)
    2.times { in_run { 2.times { pool.spawn { sleep 1 } } } }
    raised { in_run { pool.spawn { sleep } && pool.spawn {} && NB.pass && nil || raise("no") } }
    assert_equal({running: 0, queued: 0}, pool.stats.slice(:running, :queued))
    in_run { assert_equal 1, pool.spawn { 1 }.value }
  end

  def test_in_a_forked_child_it_is_as_new
    assert_equal "[1, 1], [0, 0], 5, true\n", assert_ruby(<<~RUBY)
      require "neverblock"
      pool = NeverBlock::FiberPool.new(1)
      counts = -> { pool.stats.values_at(:running, :queued).inspect }
      $stdout.sync = true
      NeverBlock.run(exit: :cancel) do
        2.times { pool.spawn { sleep } }
        print counts.call, ", "
        Process.wait(fork { print counts.call, ", ", NeverBlock.run { pool.spawn { 5 }.value }, ", ", pool.drain.equal?(pool), "\n" })
      end
    RUBY
  end

  slow "a hundred thousand tasks"
  def test_a_hundred_thousand
    on_thread do
      count = 0
      NeverBlock.run { NB::FiberPool.new(20).then { |pool| 100_000.times { pool.spawn { count += 1 } } } }
      assert_equal 100_000, count
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end
end
