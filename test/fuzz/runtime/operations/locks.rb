# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Mutex, ConditionVariable and Monitor: one holder at a time, and free in the end.
    module Locks
      private

      def prepare_locks
        @locks = Array.new(2) { Thread::Mutex.new }
        @conditions = Array.new(2) { Thread::ConditionVariable.new }
        @monitor = Monitor.new
        @inside = Hash.new(0)
        prepare_words
      end

      def settle_locks
        @locks.each { |lock| ledger.check(:place_held, lock.try_lock, "a mutex is still locked") }
        settle_flocks
        ledger.check(:place_held, @monitor.try_enter, "a monitor is still held")
      end

      def op_lock(node, at)
        number = node.args[:lock]
        lock = @locks[number]
        lock.synchronize do
          counted(@inside, number, 1, "a mutex") { perform(node.body, at) }
          ledger.check(:lock_lost, lock.owned?) { "the mutex is not owned inside synchronize, in #{at.inspect}" }
        end
      end

      def op_monitor(node, at)
        @monitor.synchronize do
          @monitor.synchronize { counted(@inside, :monitor, 1, "a monitor") { perform(node.body, at) } }
          ledger.check(:lock_lost, @monitor.mon_owned?) { "the monitor is not owned inside synchronize, in #{at.inspect}" }
        end
      end

      # The lock is held again after the wait, however that has ended; except if Fiber#raise or Fiber#kill has ended the
      # wait for the lock itself, which Ruby allows.
      def op_wait_condition(node, at)
        lock = @locks[node.args[:lock]]
        lock.synchronize do
          @conditions[node.args[:lock]].wait(lock, node.args[:limit])
        ensure
          ledger.check(:lock_lost, lock.owned? || at.struck) { "the mutex is not owned after a wait for a condition, in #{at.inspect}" }
        end
      end

      def op_signal_condition(node, _at)
        condition = @conditions[node.args[:lock]]
        node.args[:all] ? condition.broadcast : condition.signal
      end
    end
  end
end
