# frozen_string_literal: true

module NeverBlock
  module Patches
    # File#flock waits in the kernel with the whole thread; Ruby has no hook for it.
    #
    #   File.open("queue.lock", "w") { |file| file.flock(File::LOCK_EX) }
    #
    # A task asks without waiting first; then a native thread waits. When the task is to leave, a signal ends the
    # thread's wait: a lock that was granted before belongs to the task all the same, and is not lost.
    module Flock
      def self.targets = {::File => self}

      def self.needed? = true

      def flock(operation)
        scheduler = Scheduler.current if operation.is_a?(Integer)
        return super if scheduler.nil? || operation.anybits?(::File::LOCK_NB | ::File::LOCK_UN)
        super(operation | ::File::LOCK_NB) || scheduler.flock(self, operation)
      end
    end
  end
end
