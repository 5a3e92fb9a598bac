# frozen_string_literal: true

# engines: every - a wake-up of another thread ends the back end's wait

require "test_helper"
require "stringio"
require "support/loops"
require "support/virtual_time"
require "monitor"

# Ruby's own classes that wait by block and unblock: locks, queues, threads.
class BlockCoreClassesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def test_queues
    in_loop do
      queue = Queue.new
      taker = NB.spawn { Array.new(3) { queue.pop } }
      NB.pass
      3.times { |i| queue << i }
      assert_equal [0, 1, 2], taker.value
      assert_nil queue.pop(timeout: 1)
      closer = NB.spawn { queue.pop }
      NB.pass
      queue.close
      assert_nil closer.value
      sized = SizedQueue.new(1)
      pusher = NB.spawn { 3.times { |i| sized << i } }
      assert_equal [0, 1, 2], Array.new(3) { sleep(1) and sized.pop }
      pusher.join
    end
  end

  # Ruby unlocks the mutexes of ended threads only; docs/threads-and-ractors.md says so.
  def test_a_mutex_of_an_ended_task_stays_locked
    in_loop do
      mutex = Mutex.new
      NB.spawn { mutex.lock }.join
      assert_predicate mutex, :locked?
      assert_raises(ThreadError) { mutex.unlock }
      assert_raises(Timeout::Error) { Timeout.timeout(1) { mutex.lock } }
      Thread.new { mutex = Mutex.new.lock }.join
      refute_predicate mutex, :locked?
    end
  end

  def test_mutexes_exclude_and_serve_in_order
    in_loop do
      mutex, order, inside = Mutex.new.lock, [], 0
      tasks = Array.new(10) do |i|
        NB.spawn do
          mutex.synchronize do
            inside += 1
            assert_equal 1, inside
            sleep 0.1
            order << i
            inside -= 1
          end
        end
      end
      pass_until("ten waiting tasks") { tasks.all? { |task| task.state == :running && task.waits_for } }
      mutex.unlock
      tasks.each(&:value)
      assert_equal [*0..9], order
    end
  end

  def test_a_mutex_between_a_loop_and_a_thread
    in_loop do
      mutex = Mutex.new
      held, release = Queue.new, Queue.new
      thread = Thread.new { mutex.synchronize { held << 1 and release.pop } }
      held.pop
      task = NB.spawn { mutex.synchronize { :got } }
      assert_nil task.join(1)
      release << 1
      assert_equal :got, task.value
      thread.join
    end
  end

  def test_monitors_and_condition_variables
    in_loop do
      monitor = Monitor.new
      condition = monitor.new_cond
      ready = false
      waiter = NB.spawn { monitor.synchronize { condition.wait_until { ready } || :seen } }
      NB.pass
      monitor.synchronize { ready = true and condition.signal }
      assert_equal :seen, waiter.value
      mutex, variable, woken = Mutex.new, ConditionVariable.new, 0
      tasks = Array.new(5) { NB.spawn { mutex.synchronize { variable.wait(mutex) and woken += 1 } } }
      NB.pass
      mutex.synchronize { variable.signal }
      pass_until("one") { woken == 1 }
      mutex.synchronize { variable.broadcast }
      tasks.each(&:join)
      assert_equal 5, woken
    end
  end

  # A user-defined lock: ConditionVariable#wait uses only its `sleep`.
  class OwnLock
    def lock = self

    def unlock = self

    def sleep(timeout = nil)
      unlock
      timeout ? Kernel.sleep(timeout) : Kernel.sleep
    ensure
      lock
    end
  end

  def quiet_thread(&block) = Thread.new(&block).tap { |thread| thread.report_on_exception = false }

  def test_condition_variables_with_other_locks
    in_loop do
      [OwnLock.new, Class.new(Mutex).new].product([nil, 60]) do |lock, limit|
        variable = ConditionVariable.new
        waiter = NB.spawn { lock.lock and variable.wait(lock, limit) and lock.unlock and :woken }
        NB.pass
        variable.signal
        assert_equal :woken, waiter.join(10)&.value, "#{lock.class}, limit #{limit.inspect}"
      end
    end
  end

  # Ruby keeps pointers to the closing fiber until all operations have ended.
  def test_a_close_is_not_interrupted_halfway
    in_loop do
      reader, writer = IO.pipe
      reading = [quiet_thread { reader.read }, NB.spawn { reader.read }]
      pass_until("the thread reads") { reading.first.status == "sleep" }
      closed = false
      closer = NB.spawn do
        reader.close
        closed = true
        sleep
      end
      NB.pass
      closer.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(closer)
      assert closed, "the exception came out of close"
      assert_equal [IOError] * 2, reading.map { |waiting| outcome(waiting).class }
      assert_equal(2.0, seconds_of { sleep 2 })
      writer.close
    end
  end

  def test_threads
    in_loop do
      assert_equal 5, Thread.new { Thread.pass || 5 }.value
      slow = Thread.new { sleep }
      assert_nil slow.join(1)
      slow.kill
      assert_same slow, slow.join
      failing = Thread.new { raise IOError, "thread" }.tap { |thread| thread.report_on_exception = false }
      assert_raises(IOError) { failing.value }
    end
  end

  def test_a_cancelled_waiter_does_not_block_the_others
    in_loop do
      queue, mutex = Queue.new, Mutex.new
      20.times do
        gone = NB.spawn { queue.pop }
        stays = NB.spawn { queue.pop }
        mutex.lock
        gone_too = NB.spawn { mutex.synchronize { sleep } }
        locks = NB.spawn { mutex.synchronize { :locked } }
        NB.pass
        [gone, gone_too].each(&:cancel)
        2.times { queue << :item } # the cancelled one had the first claim
        mutex.unlock
        assert_equal :item, stays.value
        assert_equal :locked, locks.value
        queue.clear
        assert_equal :item, outcome(gone), "it was handed the item before its cancellation could reach it"
        assert_kind_of NeverBlock::Cancelled, outcome(gone_too)
      end
    end
  end

  def test_an_earlier_mutex_does_not_end_a_sleep
    in_loop do
      mutex = Mutex.new
      mutex.lock
      sleeper = NB.spawn do
        mutex.synchronize { :had }
        seconds_of { sleep 3 }
      end
      NB.pass
      mutex.unlock
      assert_equal 3.0, sleeper.value
    end
  end
end
