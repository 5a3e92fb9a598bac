# frozen_string_literal: true

module NeverBlock
  # Decides whether another thread could wake a task of a loop, when nothing inside the loop can.
  #
  #   Thread.new { NeverBlock.run { Queue.new.pop } }.join   # DeadlockError: the main thread waits for this loop
  #
  # Idle helper threads of NeverBlock never wake a task. Neither do those of Ruby's libraries; Timeout marks its thread.
  # A thread that sleeps for ever - for a queue, a lock or another thread - needs a waker itself, as in Ruby's own
  # detection of deadlocks. The same holds for a thread whose loop depends on other threads. A thread that has been
  # woken and hasn't run yet looks the same, so several consecutive checks must agree.
  # @api private
  class OtherThreads
    # Checks that must agree. The loop checks once a second.
    LOOKS = 3

    # The methods that wait for a lock.
    LOCKING = %w[lock synchronize enter mon_enter].freeze
    private_constant :LOOKS, :LOCKING

    # @param scheduler [Scheduler]
    def initialize(scheduler)
      @scheduler = scheduler
      @looks = 0
    end

    # @return [Boolean]
    def could_wake?
      threads = others
      return false if threads.all? { |thread| library?(thread) }
      still = threads.map { |thread| stillness(thread) }
      still = nil unless still.all?
      state = [still, @scheduler.statistics[:switches]]
      @looks = (still && state == @state) ? @looks + 1 : 1
      @state = state
      !still || @looks < LOOKS
    end

    # Decides whether another thread is doing something that a virtual clock must wait for. A thread that has got a lock
    # looks as before until it runs. So each must look the same after the threads that were due have run.
    # @return [Boolean]
    def outstanding?
      before = rest
      return before.nil? if before.nil? || before.empty?
      Thread.pass
      rest != before
    end

    # @return [Array<Thread>] threads that {#outstanding?} waits for
    def running = foreground.reject { |thread| rest_of(thread) }

    private

    # @return [Array, nil] facts that stay the same while no other thread runs; nil if one does
    def rest
      facts = foreground.map { |thread| rest_of(thread) }
      facts if facts.all?
    end

    def foreground = others.reject { |thread| library?(thread) || background?(thread) }

    # @return [Array, nil] such facts about the thread; nil if it runs
    def rest_of(thread) = [stillness(thread), native_rest(thread)].then { |facts| facts if facts.all? }

    def native_rest(thread)
      native = Scheduler.native_rest(thread.native_thread_id)
      (native == false) ? !locking?(thread) : native
    end

    def others = (Thread.list - [Thread.current]).reject { |thread| ThreadPool.idle?(thread) }

    def locking?(thread) = LOCKING.include?(thread.backtrace_locations(0, 1)&.first&.base_label)

    def library?(thread) = thread.thread_variable?(:"\x00__detached_thread__")

    # Active Record marks its reaper so, which looks at connections once a minute. Tests don't wait for such a thread.
    def background?(thread) = thread.thread_variable_get(:fork_safe) && thread.status == "sleep"

    # Thread#status doesn't tell an endless sleep from a timed one. A loop checks the other threads repeatedly.
    # @return [Array, nil] facts that stay the same while the thread sleeps for ever; nil if it doesn't
    def stillness(thread)
      return [thread] if thread.inspect.end_with?(" sleep_forever>")
      switches = Loops.all.filter_map { |loop| loop.idle_on(thread) }.first
      [thread, switches] if switches
    end
  end
end
