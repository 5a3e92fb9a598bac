# frozen_string_literal: true

module NeverBlock
  module Patches
    # Releases the parent's fibers in a forked child at once. Fibers that wait for a mutex are in its queue, ahead of
    # the child's own waiters. Without the patch the release happens at the child's first wait; on Ruby 4.0 and later,
    # where a child has no scheduler, it happens at the child's end.
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
