# frozen_string_literal: true

module NeverBlock
  class Server
    module Cluster
      # Exponential backoff between attempts that fail: half a second at first, doubled after each attempt, at most half
      # a minute.
      #
      #   backoff = Backoff.new
      #   backoff.wait         # sleeps 0.5 s
      #   backoff.wait         # sleeps 1 s
      #   backoff.reset        # after a success: the next delay is 0.5 s again
      # @api private
      class Backoff
        # Seconds.
        SHORTEST = 0.5
        LONGEST = 30

        def initialize
          reset
        end

        # Sleeps for the next delay.
        # @return [void]
        def wait
          sleep next_delay
        end

        # @return [Numeric] seconds to wait this time
        def next_delay = @seconds = (@seconds * 2).clamp(SHORTEST, LONGEST)

        # @return [void]
        def reset
          @seconds = 0
        end
      end
    end
  end
end
