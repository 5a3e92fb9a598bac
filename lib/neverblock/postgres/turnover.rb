# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Ends the connections that are too old, or that nobody has needed for too long, and asks those for an answer that have been
    # silent for long. Nothing is interrupted: one that is in use ends after its statement, or its lease.
    #
    #   turnover = Turnover.new(pool, upkeep, lifespan, warm_start)
    #   Janitor.watch(turnover)       # its thread calls #look_around every so often
    #
    # @api private
    class Turnover
      # @return [Float] when {Janitor} comes next
      attr_accessor :due

      # @param pool [Pool]
      # @param upkeep [Upkeep]
      # @param lifespan [Lifespan]
      # @param warm_start [WarmStart]
      def initialize(pool, upkeep, lifespan, warm_start)
        @pool = pool
        @upkeep = upkeep
        @lifespan = lifespan
        @warm_start = warm_start
        @over = false
      end

      # @return [Float] seconds
      def every = @lifespan.every

      # From {Janitor}'s thread.
      # @return [Boolean] whether it is to be done again
      def look_around
        return false if @over
        connections = @pool.connections.dup.reject(&:broken)
        connections.each { |connection| connection.age.heard(connection.heard) unless connection.restoring? }
        connections.each { |connection| retire(connection) if @lifespan.old?(connection.age) }
        shrink
        @pool.connections.dup.each { |connection| ask(connection) if @lifespan.quiet?(connection.age) }
        @warm_start.begin
        !@pool.closed?
      end

      # In a forked child, whose pool is another.
      # @return [void]
      def end
        @over = true
        @warm_start.rest
      end

      private

      def retire(connection)
        return @upkeep.discard(connection) if take(connection)
        @pool.drain(connection) { connection.stale = true } # its end comes when it is idle
      end

      # Those that nobody has used for longest go first. What is of a set of session defaults that new connections do not have is not kept.
      def shrink
        idle = @pool.connections.dup.select { |connection| @lifespan.idle?(connection.age) }.sort_by { |connection| -connection.age.since_use }
        idle.each { |connection| @upkeep.discard(connection) if (surplus? || connection.session_defaults != @pool.wanted) && take(connection) }
      end

      def surplus? = @pool.serving > @lifespan.min_connections

      def ask(connection)
        return unless take(connection)
        alive = SessionReset.new(connection, false).answers?
        connection.age.asked(connection.heard)
        alive ? @upkeep.settle(connection) : @upkeep.discard(connection)
      end

      # @return [Boolean] whether nobody used it, and nobody else gets it now
      def take(connection) = @pool.hold(connection) { @pool.router.idle?(connection) }
    end
  end
end
