# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Opens connections in advance, up to `min_connections`: one at a time, by a thread of its own. The pauses grow with
    # the time that the server takes, and the first one is random, so that the processes of an app don't all connect at
    # once. After a failure it gives up; {Turnover} begins again later, as does each connection that a request opens.
    #
    #   warm_start = WarmStart.new(pool, lifespan, journal)
    #   warm_start.activate     # from now on
    #   warm_start.begin        # opens the missing ones
    #
    # @api private
    class WarmStart
      include MonotonicClock

      # Seconds before the first one, at most.
      LONGEST_DELAY = 0.5

      # Seconds between two, at least; and factor of the time that the last one took.
      SHORTEST_PAUSE = 0.1
      PAUSE_FACTOR = 10

      # Random part of each pause, from 0 to 1.
      JITTER = 0.5
      private_constant :LONGEST_DELAY, :SHORTEST_PAUSE, :PAUSE_FACTOR, :JITTER

      # @param pool [Pool]
      # @param lifespan [Lifespan]
      # @param journal [Journal]
      def initialize(pool, lifespan, journal)
        @pool = pool
        @lifespan = lifespan
        @journal = journal
        @lock = Thread::Mutex.new
        @active = @told = false
        @thread = nil
      end

      # From now on `min_connections` are kept open.
      # @return [void]
      def activate
        @active = true
        self.begin
      end

      # No connection is opened in advance any more: DROP DATABASE fails while any is open.
      # @return [void]
      def rest = @active = false

      # Opens the missing ones, if it is active.
      # @return [void]
      def begin
        @lock.synchronize { @thread = Thread.new { fill } unless @thread&.alive? } if missing?
      rescue ThreadError
        nil # Ruby is exiting, or there is no memory: a later call tries again
      end

      private

      def missing? = @active && !@pool.closed? && @pool.serving < @lifespan.min_connections

      def fill
        Thread.current.name = "neverblock postgres"
        sleep(rand * LONGEST_DELAY)
        while missing?
          began = now
          break unless open
          sleep([PAUSE_FACTOR * (now - began), SHORTEST_PAUSE].max * (1 - rand * JITTER))
        end
      end

      # @return [Boolean] whether one was opened
      def open
        opened = @pool.open_extra(@lifespan.min_connections) { @active }
        @told = false if opened
        opened
      rescue => error
        unless @told || @pool.closed?
          @journal.say("min_connections: #{@lifespan.min_connections} are not reached, because one could not be " \
            "opened: #{error.message}")
        end
        @told = true
        false
      end
    end
  end
end
