# frozen_string_literal: true

module NeverBlock
  class Postgres
    # One fiber at a time, of whatever thread, and the others wait in line. Not a Mutex: those that the fibers of a thread hold are in a list that
    # Ruby walks at each unlock, and a thousand fibers that wait for connections, each of them with its own held, made a transaction a tenth dearer.
    #
    #   turn = Turn.new
    #   turn.take { wait_for_something }
    #
    # @api private
    class Turn
      def initialize
        @line = []
      end

      # @return [Boolean] whether it is somebody's
      def taken? = !@line.empty?

      # @return [Object] the block's value
      def take
        # An exception from outside may come whenever a method of Ruby's own returns, so there is none but Array's and Queue's that are in C.
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
