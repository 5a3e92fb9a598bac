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
    # The check is in C: whether a loop of any thread waits for the descriptor. Core closes inside of C in a few places,
    # without a call of IO#close: IO#close_read, IO#close_write and the end of a block of IO.popen.
    module Close
      def self.targets = {::IO => self, ::BasicSocket => SocketHalves, ::IO.singleton_class => Popen}

      def self.needed? = true

      def close
        Scheduler.closing(self)
        super
      end

      # Tells the waiters afterwards, because core may refuse to reopen, and the IO keeps its descriptor's number.
      def reopen(*arguments, **)
        super.tap { Scheduler.closing(self) unless equal?(arguments.first) } # itself: nothing happens
      end

      # Both directions.
      module Halves
        def close_read
          Scheduler.closing_half(self, false)
          super
        end

        def close_write
          Scheduler.closing_half(self, true)
          super
        end
      end
      include Halves

      # BasicSocket has methods of its own. A copy, because it has the module of IO among its ancestors already.
      SocketHalves = Halves.clone

      # IO.popen closes by IO#close when its block ends. The child of popen("-") ends with its block, in core.
      module Popen
        def popen(*command, **)
          return super if !block_given? || command.include?("-")
          io = super(*command, **, &nil)
          begin
            yield io
          ensure
            io.close
          end
        end
      end
    end
  end
end
