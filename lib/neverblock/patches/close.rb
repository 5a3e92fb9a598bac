# frozen_string_literal: true

module NeverBlock
  module Patches
    # Wakes fibers that wait for a descriptor when it is closed. Before Ruby 4.0 IO#close doesn't tell a scheduler,
    # and such a fiber would wait for ever (Ruby bug 21166). It gets the IOError of a waiting thread: "stream
    # closed in another thread". Later Rubies report reads, writes and IO#wait, but not an IO.select whose
    # descriptor another thread closes.
    #
    #   reader = NeverBlock.spawn { socket.gets }
    #   socket.close               # reader fails with IOError
    #
    # The check is in C: whether a loop of any thread waits for the descriptor.
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
