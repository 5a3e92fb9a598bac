# frozen_string_literal: true

require "monitor"

# Queues, locks, threads and sleep. The others are plain threads.
module NeverBlockTest
  module Effects
    row "`sleep`", :withdrawn do
      operation(:sleep) { sleep 60 }
      check do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        sleep 0.002
        assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :>=, 0.002
      end
    end

    row "`Queue#pop`", :withdrawn do
      queue = Thread::Queue.new
      operation(:block) { queue.pop }
      check do
        assert_equal 0, queue.num_waiting
        queue << :item
        assert_equal 1, queue.size
        assert_equal :item, queue.pop
      end
    end

    row "`SizedQueue#push`", :withdrawn do
      queue = Thread::SizedQueue.new(1)
      queue << :first
      operation(:block) { queue << :second }
      check do
        assert_equal 0, queue.num_waiting
        assert_equal :first, queue.pop
        assert_empty queue
        queue << :third
        assert_equal :third, queue.pop
      end
    end

    row "`Mutex#lock`", :withdrawn do
      mutex, held, leave = Thread::Mutex.new, gate, gate
      holder = other { mutex.synchronize { (held << true) && leave.pop } }
      held.pop
      operation(:block) { mutex.lock }
      check do
        leave << true
        holder.join
        refute_predicate mutex, :locked?
        assert_equal :value, mutex.synchronize { :value }
      end
    end

    row "`Mutex#sleep`", :withdrawn do
      mutex = Thread::Mutex.new
      locked = nil
      operation(:sleep) do
        mutex.synchronize do
          mutex.sleep
        ensure
          locked = mutex.owned?
        end
      end
      check do
        assert locked, "the mutex was taken again first"
        refute_predicate mutex, :locked?
        assert_equal :value, mutex.synchronize { :value }
      end
    end

    row "`ConditionVariable#wait`", :withdrawn do
      mutex, condition, waiting, signals = Thread::Mutex.new, Thread::ConditionVariable.new, gate, gate
      locked = nil
      operation(:sleep) do
        mutex.synchronize do
          condition.wait(mutex)
        ensure
          locked = mutex.owned?
        end
      end
      check do
        assert locked, "the mutex was taken again first"
        other do
          mutex.synchronize { (waiting << true) && condition.wait(mutex) }
          signals << :taken
        end
        waiting.pop
        mutex.synchronize { condition.signal }
        assert_equal :taken, signals.pop(timeout: 10), "the one who had left took the signal"
      end
    end

    row "`MonitorMixin::ConditionVariable#wait`", :withdrawn do
      monitor, waiting, signals = Monitor.new, gate, gate
      condition = monitor.new_cond
      owned = nil
      operation(:sleep) do
        monitor.synchronize do
          condition.wait
        ensure
          owned = monitor.mon_owned?
        end
      end
      check do
        assert owned, "the monitor was entered again first"
        other do
          monitor.synchronize { (waiting << true) && condition.wait }
          signals << :taken
        end
        waiting.pop
        monitor.synchronize { condition.signal }
        assert_equal :taken, signals.pop(timeout: 10), "the one who had left took the signal"
      end
    end

    row "`Monitor#enter`", :withdrawn do
      monitor, held, leave = Monitor.new, gate, gate
      holder = other { monitor.synchronize { (held << true) && leave.pop } }
      held.pop
      operation(:block) { monitor.enter }
      check do
        leave << true
        holder.join
        refute_predicate monitor, :mon_locked?
        assert_equal :value, monitor.synchronize { :value }
      end
    end

    row "`Thread#join`, `Thread#value`", :goes_on do
      answer = gate
      thread = other { answer.pop }
      operation(:block) { [true, false].sample ? thread.join : thread.value }
      check do
        assert_predicate thread, :alive?
        answer << :value
        assert_equal :value, thread.value
      end
    end
  end
end
