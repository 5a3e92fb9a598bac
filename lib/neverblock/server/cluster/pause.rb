# frozen_string_literal: true

module NeverBlock
  class Server
    module Cluster
      # How long to wait before something that keeps failing is tried again: half a second at first, twice as long each
      # time, half a minute at most.
      #
      #   pause = Pause.new
      #   pause.rest        # sleeps 0.5 s
      #   pause.rest        # sleeps 1 s
      #   pause.over        # it went well: the next one is short again
      # @api private
      class Pause
        SHORTEST = 0.5
        LONGEST = 30

        def initialize
          over
        end

        # @return [void]
        def rest
          sleep self.next
        end

        # @return [Numeric] seconds to wait this time
        def next = @seconds = (@seconds * 2).clamp(SHORTEST, LONGEST)

        # @return [void]
        def over
          @seconds = 0
        end
      end
    end
  end
end
