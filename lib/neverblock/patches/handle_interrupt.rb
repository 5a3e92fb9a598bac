# frozen_string_literal: true

module NeverBlock
  module Patches
    # Keeps the masks of Thread.handle_interrupt per task; Ruby keeps them per thread, which all tasks share. In a
    # task a mask also defers what NeverBlock raises: Task#cancel, timeouts, and the end of a scope. It does so
    # while the task is parked, too.
    #
    #   Thread.handle_interrupt(Exception => :never) { pool_lock.synchronize { pool << connection } }
    #
    # ext/neverblock/scheduler/masks.c evaluates the masks. CallerMasks records the masks around a loop.
    module HandleInterrupt
      CallerMasks.noted_by = __FILE__

      def self.targets = {::Thread.singleton_class => self}

      def self.needed? = true

      def handle_interrupt(mask)
        scheduler = Scheduler.of_thread
        return CallerMasks.under(mask) { super } unless scheduler && Task.current
        scheduler.masked(mask) { super }
      end
    end
  end
end
