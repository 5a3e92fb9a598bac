# frozen_string_literal: true

module NeverBlock
  # Whether another thread could wake a task of a loop, where nothing inside the loop can.
  #
  #   Thread.new { NeverBlock.run { Queue.new.pop } }.join   # DeadlockError: the main thread waits for that very loop
  #
  # Idle helpers of ours, and of Ruby's libraries (Timeout marks its thread so), never do. A thread that sleeps for ever -
  # for a queue, a lock, another thread - can do it only when something else wakes that thread, as in Ruby's own search for
  # deadlocks. So can one whose own loop has nothing left but other threads. One that has just been woken and has not run yet
  # looks the same, so several looks must agree.
  # @api private
  class OtherThreads
    # The loop asks once a second.
    LOOKS = 3
    private_constant :LOOKS

    # @param scheduler [Scheduler]
    def initialize(scheduler)
      @scheduler = scheduler
      @looks = 0
    end

    # @return [Boolean]
    def could_wake?
      threads = (Thread.list - [Thread.current]).reject { |thread| ThreadPool.idle?(thread) }
      return false if threads.all? { |thread| library?(thread) }
      still = threads.map { |thread| stillness(thread) }
      still = nil unless still.all?
      state = [still, @scheduler.statistics[:switches]]
      @looks = (still && state == @state) ? @looks + 1 : 1
      @state = state
      !still || @looks < LOOKS
    end

    private

    def library?(thread) = thread.thread_variable?(:"\x00__detached_thread__")

    # Thread#status does not tell it from a sleep with an end. A loop looks at the other threads again and again.
    # @return [Array, nil] what stays the same while the thread sleeps for ever; nil: it does not
    def stillness(thread)
      return [thread] if thread.inspect.end_with?(" sleep_forever>")
      switches = Loops.all.filter_map { |loop| loop.idle_on(thread) }.first
      [thread, switches] if switches
    end
  end
end
