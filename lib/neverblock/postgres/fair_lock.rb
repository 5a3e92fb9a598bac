# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Mutual exclusion for fibers of all threads, first come, first served. Not a Mutex: Ruby walks a thread's list of
    # held Mutexes at each unlock, and a thousand fibers that wait for connections, each with its own Mutex held, made a
    # transaction a tenth slower.
    #
    #   lock = FairLock.new
    #   lock.synchronize { wait_for_something }
    #
    # @api private
    class FairLock
      def initialize
        @line = []
      end

      # @return [Boolean] whether a fiber or thread has it
      def locked? = !@line.empty?

      # @return [Object] the block's value
      def synchronize
        # An exception from outside may come whenever a method of Ruby's own returns, so only methods of Array and Queue
        # that are in C are called.
        @line << (mine = Thread::Queue.new)
        mine.pop until @line[0].equal?(mine)
        yield
      ensure
        @line.delete(mine)
        @line[0]&.push(true)
      end
    end
  end
end
