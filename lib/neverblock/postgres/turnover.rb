# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Closes connections that are too old or idle for too long, and probes those that were silent for long. It
    # interrupts no statement and no lease: a connection in use is closed after its end.
    #
    #   turnover = Turnover.new(pool, upkeep, lifespan, warm_start)
    #   Janitor.watch(turnover)       # its thread calls #look_around every #every seconds
    #
    # @api private
    class Turnover
      # @return [Float] when {Janitor} calls next, on the monotonic clock
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

      # @return [Float] seconds between two calls of {Janitor}
      def every = @lifespan.every

      # Called by {Janitor}'s thread.
      # @return [Boolean] false: it was the last time
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

      # Called in a forked child, which has another pool.
      # @return [void]
      def end
        @over = true
        @warm_start.rest
      end

      private

      def retire(connection)
        return @upkeep.discard(connection) if take(connection)
        @pool.drain(connection) { connection.stale = true } # it is closed when it is idle
      end

      # Closes those with the longest idle time first. Session defaults out of use don't count for `min_connections`.
      def shrink
        idle = @pool.connections.dup.select { |connection| @lifespan.idle?(connection.age) }
          .sort_by { |connection| -connection.age.since_use }
        idle.each do |connection|
          @upkeep.discard(connection) if (surplus? || connection.session_defaults != @pool.wanted) && take(connection)
        end
      end

      def surplus? = @pool.serving > @lifespan.min_connections

      def ask(connection)
        return unless take(connection)
        alive = SessionReset.new(connection, false).answers?
        connection.age.asked(connection.heard)
        alive ? @upkeep.settle(connection) : @upkeep.discard(connection)
      end

      # @return [Boolean] whether it was idle, and is held now
      def take(connection) = @pool.hold(connection) { @pool.router.idle?(connection) }
    end
  end
end
