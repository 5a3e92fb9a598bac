# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes File#flock park the fiber. Ruby has no hook for it; the call waits in the kernel with the whole thread.
    #
    #   File.open("queue.lock", "w") { |file| file.flock(File::LOCK_EX) }
    #
    # A task first tries without waiting. Then a native thread waits. When the task must leave, a signal ends the
    # thread's wait. A lock that was granted before belongs to the task and isn't lost.
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
