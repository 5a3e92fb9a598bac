# frozen_string_literal: true

module NeverBlock
  module Patches
    # A forked child lets go of its parent's fibers at once: those that wait for a mutex are in its queue, in front of
    # the waiters of the child. Without it that happens at the first wait in the child, and on Ruby 4.0 and later,
    # where a child has no scheduler, not before its end.
    #
    #   lock.synchronize { fork { lock.unlock } }
    module Fork
      def self.targets = {::Process.singleton_class => self}

      def self.needed? = ::Process.respond_to?(:_fork)

      def _fork
        scheduler = Scheduler.of_thread
        pid = super
        scheduler.forget_parent if scheduler && pid.zero?
        pid
      end
    end
  end
end
