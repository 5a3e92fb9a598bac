# frozen_string_literal: true

module NeverBlock
  module Patches
    # Ruby keeps the masks of Thread.handle_interrupt by the thread, which tasks have in common. In a task they hold off what
    # we raise in it too, also while it is parked: Task#cancel, timeouts, and the end of a scope.
    #
    #   Thread.handle_interrupt(Exception => :never) { pool_lock.synchronize { pool << connection } }
    #
    # What a mask says is looked up in ext/neverblock/scheduler/masks.c. Those that are in force around a loop are noted in
    # CallerMasks.
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
