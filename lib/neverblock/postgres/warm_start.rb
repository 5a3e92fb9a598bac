# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Opens connections that nobody has asked for yet, until there are as many as there are to be: one at a time by a thread of its
    # own, with pauses that are longer the longer the server takes, and a first one that is by chance, lest all processes of an
    # app come at once. Where one can't be opened it gives up: {Turnover} tries again later, and whoever opens one meanwhile.
    #
    #   warm_start = WarmStart.new(pool, lifespan, journal)
    #   warm_start.activate     # from now on they are wanted
    #   warm_start.begin        # some may be missing
    #
    # @api private
    class WarmStart
      # Seconds before the first, at most.
      LONGEST_DELAY = 0.5

      # Seconds from one to the next, at least; and so many times as long as opening the last one took.
      SHORTEST_PAUSE = 0.1
      PAUSE_FACTOR = 10

      # Of each pause so much is by chance.
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

      # They are wanted from now on.
      # @return [void]
      def activate
        @active = true
        self.begin
      end

      # They are wanted no more: DROP DATABASE wants none.
      # @return [void]
      def rest = @active = false

      # @return [void]
      def begin
        @lock.synchronize { @thread = Thread.new { fill } unless @thread&.alive? } if missing?
      rescue ThreadError
        nil # Ruby ends, or there is no memory: it is tried again
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

      # @return [Boolean] whether it was
      def open
        opened = @pool.open_extra(@lifespan.min_connections) { @active }
        @told = false if opened
        opened
      rescue => error
        @journal.say("min_connections: #{@lifespan.min_connections} are not reached, since one could not be opened: #{error.message}") unless @told || @pool.closed?
        @told = true
        false
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
