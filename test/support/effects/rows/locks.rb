# frozen_string_literal: true

require "monitor"

# Queues, locks, threads and sleep. The other side is plain threads.
module NeverBlockTest
  module Effects
    row "`sleep`", :withdrawn do
      operation(:sleep) { sleep 60 } # real: the kernel's timer, until it is left
      check do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        sleep 0.002 # real: the kernel's timer
        assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :>=, 0.002
      end
    end

    row "`Queue#pop`, `SizedQueue#pop`, also with a `timeout:`", :withdrawn,
      calls: [Thread::Queue, Thread::SizedQueue].product([nil, 60]) do |kind, timeout|
      queue = kind.new(*(1 if kind == Thread::SizedQueue))
      operation(:block) { queue.pop(timeout:) }
      check do
        assert_equal 0, queue.num_waiting
        queue << :item
        assert_equal 1, queue.size
        assert_equal :item, queue.pop
      end
    end

    row "`SizedQueue#push`, also with a `timeout:`", :withdrawn, calls: [nil, 60] do |timeout|
      queue = Thread::SizedQueue.new(1)
      queue << :first
      operation(:block) { queue.push(:second, timeout:) }
      check do
        assert_equal 0, queue.num_waiting
        assert_equal :first, queue.pop
        assert_empty queue
        queue << :third
        assert_equal :third, queue.pop
      end
    end

    row "`Mutex#lock`, `Mutex#synchronize`", :withdrawn, calls: [:lock.to_proc, ->(mutex) { mutex.synchronize { raise "inside" } }] do |act|
      mutex, held, leave = Thread::Mutex.new, gate, gate
      holder = other { mutex.synchronize { (held << true) && leave.pop } }
      held.pop
      operation(:block) { act.call(mutex) }
      check do
        leave << true
        holder.join
        others_first
        refute_predicate mutex, :locked?
        assert_equal :value, mutex.synchronize { :value }
      end
    end

    row "`Mutex#sleep`", :withdrawn, calls: [nil, 60] do |limit|
      mutex = Thread::Mutex.new
      locked = nil
      operation(:sleep) do
        mutex.synchronize do
          mutex.sleep(limit)
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

    # A wait for a condition reacquires its lock before it is left, and leaves a later signal to another waiter.
    module Conditions
      def wait_for_condition(lock, condition, owned:, others_wait:, &act)
        waiting, signals = gate, gate
        locked = nil
        operation(:sleep) do
          lock.synchronize do
            act.call
          ensure
            locked = owned.call
          end
        end
        check do
          assert locked, "the lock was taken again first"
          other do
            lock.synchronize { (waiting << true) && others_wait.call }
            signals << :taken
          end
          waiting.pop
          lock.synchronize { condition.signal }
          assert_equal :taken, signals.pop(timeout: 10), "the waiter that had left took the signal"
        end
      end
    end
    Cell.include Conditions

    row "`ConditionVariable#wait`, also with a limit", :withdrawn, calls: [nil, 60] do |limit|
      mutex, condition = Thread::Mutex.new, Thread::ConditionVariable.new
      wait_for_condition(mutex, condition, owned: -> { mutex.owned? }, others_wait: -> { condition.wait(mutex) }) { condition.wait(mutex, limit) }
    end

    row "`MonitorMixin::ConditionVariable#wait`, also with a limit, `#wait_while`, `#wait_until`", :withdrawn,
      calls: [:wait.to_proc, ->(condition) { condition.wait(60) }, ->(condition) { condition.wait_while { true } }, ->(condition) { condition.wait_until { false } }] do |act|
      monitor = Monitor.new
      condition = monitor.new_cond
      wait_for_condition(monitor, condition, owned: -> { monitor.mon_owned? }, others_wait: -> { condition.wait }) { act.call(condition) }
    end

    row "`Monitor#enter`, `Monitor#synchronize`", :withdrawn, calls: [:enter.to_proc, ->(monitor) { monitor.synchronize { raise "inside" } }] do |act|
      monitor, held, leave = Monitor.new, gate, gate
      holder = other { monitor.synchronize { (held << true) && leave.pop } }
      held.pop
      operation(:block) { act.call(monitor) }
      check do
        leave << true
        holder.join
        others_first
        refute_predicate monitor, :mon_locked?
        assert_equal :value, monitor.synchronize { :value }
      end
    end

    row "`Thread#join`, also with a limit, `Thread#value`", :goes_on, calls: [:join.to_proc, ->(thread) { thread.join(60) }, :value.to_proc] do |act|
      answer = gate
      thread = other { answer.pop }
      operation(:block) { act.call(thread) }
      check do
        assert_predicate thread, :alive?
        answer << :value
        assert_equal :value, thread.value
      end
    end

    row "`require`, while another thread loads the file", :goes_on do
      feature = "#{folder}/feature.rb"
      File.write(feature, "Thread.current[:begun] << true\nThread.current[:answer].pop\n")
      begun, answer = gate, gate
      loader = other do
        Thread.current[:begun], Thread.current[:answer] = begun, answer
        require feature
      end
      begun.pop
      operation(:block) { require feature }
      check do
        assert_predicate loader, :alive?
        answer << true
        assert_equal [true, false], [loader.value, require(feature)]
      end
    end
  end
end
