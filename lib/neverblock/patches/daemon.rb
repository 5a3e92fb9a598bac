# frozen_string_literal: true

module NeverBlock
  module Patches
    # Refuses Process.daemon beside live tasks. It continues in a forked child, where only the calling task
    # exists; the other tasks would be lost without their ensure blocks. Process.daemon forks without
    # Process._fork, so hooks there don't see it.
    #
    #   Process.daemon
    #   NeverBlock.run { serve }   # this order
    module Daemon
      # Process.daemon was called beside live tasks.
      class LiveTasksError < RuntimeError
        include Error
      end

      def self.targets = {::Process.singleton_class => self}

      def self.needed? = ::Process.respond_to?(:daemon)

      def daemon(...)
        return super unless Scheduler.current
        others = NeverBlock.tasks.count { |task| !task.equal?(Task.current) }
        return super if others.zero?
        raise LiveTasksError, "Process.daemon would lose #{others} other live #{(others == 1) ? "task" : "tasks"}: " \
          "call it before NeverBlock.run, or once they have ended (NeverBlock.tasks lists them)"
      end
    end
  end
end
