# frozen_string_literal: true

module NeverBlock
  module Patches
    # File#flock waits in the kernel with the whole thread; Ruby has no hook for it.
    #
    #   File.open("queue.lock", "w") { |file| file.flock(File::LOCK_EX) }
    #
    # A task asks without waiting, again and again with growing pauses. A native
    # thread that waits in flock(2) would be quicker to notice, but it cannot be called
    # off: it may get the lock after its task has given up, and enough of them leave no
    # thread for the task that holds the lock and has work to finish.
    module Flock
      # Seconds before the second try, and the longest pause between two.
      FIRST_PAUSE = 0.001
      LONGEST_PAUSE = 0.025
      private_constant :FIRST_PAUSE, :LONGEST_PAUSE

      def self.targets = {::File => self}

      def self.needed? = true

      def flock(operation)
        return super unless Scheduler.current && operation.is_a?(Integer)
        return super if operation.anybits?(::File::LOCK_NB | ::File::LOCK_UN)
        pause = FIRST_PAUSE
        until (granted = super(operation | ::File::LOCK_NB))
          sleep(pause)
          pause = [pause * 2, LONGEST_PAUSE].min
        end
        granted
      end
    end
  end
end
