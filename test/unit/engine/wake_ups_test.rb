# frozen_string_literal: true

# engines: every - each engine wakes in its own way
require "test_helper"
require "support/runs"
require "support/virtual_time"

# A wake-up ends its own wait and no other; a late one, for a wait that was left, has no effect.
class WakeUpsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  SHORT = 20 # seconds of a sleep, which begins just before the late wake-up

  def left(seconds = 0.001, &wait) = assert_kind_of(Timeout::Error, raised { Timeout.timeout(seconds, &wait) })

  # The late wake-ups come while the task sleeps: virtual time passes only when no thread or process goes on.
  def assert_sleeps_through(late)
    slept = seconds_of do
      late.call
      sleep SHORT
    end
    assert_operator slept, :>=, SHORT
  end

  # R2 of the runtime's review
  def test_an_abandoned_offloaded_call_ends_no_other_wait
    gate, last = Thread::Queue.new, Thread::Queue.new
    begun = ended = 0
    in_run do
      left(0.005) { NB.offload { (begun += 1) && gate.pop && ended += 1 } } until begun >= 8 # on a busy machine some are withdrawn
      assert_sleeps_through(-> { 4.times { gate << true } })
      pass_until("the end of half of them") { ended == 4 }
      gate.close
      NB.spawn { sleep(SHORT) && last << :done }
      assert_equal :done, Thread.new { last.pop }.value
      assert_equal 4, ended
    ensure
      gate.close
    end
  end

  # R2
  def test_many_abandoned_offloaded_calls
    gate = Thread::Queue.new
    in_run do
      100.times { left(0.0002) { NB.offload { gate.pop } } }
      assert_sleeps_through(-> { gate.close })
    ensure
      gate.close
    end
  end

  # R2
  def test_an_abandoned_wait_for_a_process_ends_no_other_wait
    in_run do
      reader, writer = IO.pipe
      pid = spawn("read line; exit 7", in: reader, pgroup: true)
      left { Process.wait(-pid) } # by a native thread
      left { Process.wait(pid) }
      assert_sleeps_through(-> { writer.puts })
      assert_equal 7, Process.wait2(pid).last.exitstatus
      [reader, writer].each(&:close)
    end
  end

  # R3: the scope kept a reference to the waiter of its tasks.
  def test_an_abandoned_nested_run_ends_no_other_wait
    in_run do
      gate, pool = Thread::Queue.new, NB::FiberPool.new(1)
      pool.spawn { gate.pop }
      left { NeverBlock.run { pool.spawn {} } }
      assert_sleeps_through(-> { gate << true })
    end
  end

  def test_abandoned_waits_for_locks_queues_and_threads_end_no_sleep
    in_run do
      mutex, condition, queue, gate = Thread::Mutex.new, Thread::ConditionVariable.new, Thread::Queue.new, Thread::Queue.new
      thread = Thread.new { mutex.synchronize { gate.pop } }
      pass_until("the thread to have the mutex") { mutex.locked? }
      left { mutex.lock }
      left { queue.pop }
      left { thread.join }
      other = Thread::Mutex.new
      left { other.synchronize { condition.wait(other) } }
      assert_sleeps_through(-> { (gate << true) && (queue << true) && condition.broadcast })
      thread.join
      assert_equal [1, false], [queue.size, mutex.locked?]
    end
  end

  def test_abandoned_waits_for_tasks_promises_and_semaphores_end_no_sleep
    in_run do |scope|
      gate, promise, semaphore = Thread::Queue.new, NB::Promise.new, NB::Semaphore.new(1)
      semaphore.acquire
      task = scope.spawn { gate.pop }
      left { task.value }
      left { promise.value }
      left { semaphore.acquire }
      left { NeverBlock.select(Thread::Queue.new, gate) }
      assert_sleeps_through(-> { (gate << true) && promise.fulfill && semaphore.release })
    end
  end
end
