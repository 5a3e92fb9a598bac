# frozen_string_literal: true

module NeverBlock
  module Patches
    # Before Ruby 4.0 IO#close does not tell a scheduler, and a fiber that waits for
    # the descriptor would wait for ever (Ruby bug 21166). It gets the IOError that a
    # waiting thread gets: "stream closed in another thread". Later Rubies tell of reads,
    # writes and IO#wait, but not of IO.select, when another thread closes.
    #
    #   reader = NeverBlock.spawn { socket.gets }
    #   socket.close               # reader fails with IOError
    #
    # The one check is in C: whether any loop, on whatever thread, waits for it.
    module Close
      def self.targets = {::IO => self}

      def self.needed? = true

      def close
        Scheduler.closing(self)
        super
      end

      def reopen(...)
        Scheduler.closing(self)
        super
      end
    end
  end
end
