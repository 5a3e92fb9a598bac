# frozen_string_literal: true

module NeverBlockFuzz
  module Operations
    # Sleeping, passing, computing, and waits that only an interrupt ends.
    module Pauses
      private

      def op_sleep(node, at) = nap(node.args[:seconds], at)

      def nap(seconds, at)
        started = now
        sleep(seconds)
        elapsed = now - started
        ledger.check(:sleep_short, elapsed >= seconds - 0.000001) { "sleep(#{seconds}) took #{elapsed.round(6)} s in #{at.inspect}" }
      end

      def op_pass(node, _at) = node.args[:times].times { NeverBlock.pass }

      def op_compute(node, _at) = node.args[:rounds].times { |round| Array.new(100) { |i| (i * round).to_s }.join.hash unless GC.stress }

      def op_collect(node, _at)
        case node.args[:kind]
        when :start then GC.start
        when :minor then GC.start(full_mark: false)
        else GC.compact
        end
      end

      # Each allocation collects garbage while the body waits, also allocations of all other tasks, so there must be
      # few. Minor collections only, which 1 stands for: major ones take seconds in all.
      def op_stress(node, at)
        GC.stress = 1 if @ledger.strands.count { |strand| strand.task&.alive? } < 6
        perform(node.body, at)
      ensure
        GC.stress = false
      end

      # Ended by a timeout, a cancellation or the end of a race around it; never by itself. Most of these are raised
      # once, and an error of an ensure block replaces them, as in plain Ruby: after one, perhaps no event is left that
      # ends the wait.
      def op_forever(node, at)
        return if at.explanation
        send(:"forever_#{node.args[:kind]}", at)
        ledger.fail(:wait_ended, "a wait without an end has ended by itself: #{node.title} in #{at.inspect}")
      end

      def forever_sleep(_at) = sleep

      def forever_queue(_at) = Thread::Queue.new.pop

      def forever_pipe(_at) = IO.pipe { |reader, _writer| reader.readpartial(1) }

      def forever_condition(_at)
        lock = Thread::Mutex.new
        lock.synchronize { Thread::ConditionVariable.new.wait(lock) }
      end

      def forever_thread(_at)
        thread = Thread.new { sleep }
        thread.join
      ensure
        thread&.kill
      end

      def forever_child(_at)
        pid = Process.spawn("exec sleep 60")
        @ledger.started(pid, nil)
        @ledger.status(pid, Process.wait2(pid).last)
      ensure
        Process.kill(:KILL, pid) if pid
      end
    end
  end
end
