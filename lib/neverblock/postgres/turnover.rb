# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Ends the connections that are too old, or that nobody has needed for too long, and asks those for an answer that have been
    # silent for long. Nothing is interrupted: one that is in use ends after its statement, or its lease.
    #
    #   turnover = Turnover.new(pool, upkeep, lifespan, warm_start)
    #   Patrol.watch(turnover)       # its thread calls #look_around every so often
    #
    # @api private
    class Turnover
      # @return [Float] when {Patrol} comes next
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

      # From {Patrol}'s thread.
      # @return [Boolean] whether it is to be done again
      def look_around
        return false if @over
        backends = @pool.backends.dup.reject(&:broken)
        backends.each { |backend| backend.age.heard(backend.heard) unless backend.restoring? }
        backends.each { |backend| retire(backend) if @lifespan.old?(backend.age) }
        shrink
        @pool.backends.dup.each { |backend| ask(backend) if @lifespan.quiet?(backend.age) }
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

      def retire(backend)
        return @upkeep.discard(backend) if take(backend)
        @pool.reserve(backend) { backend.stale = true } # its end comes when it is idle
      end

      # Those that nobody has used for longest go first. What is of a profile that new connections do not have is not kept.
      def shrink
        idle = @pool.backends.dup.select { |backend| @lifespan.idle?(backend.age) }.sort_by { |backend| -backend.age.since_use }
        idle.each { |backend| @upkeep.discard(backend) if (spare? || backend.profile != @pool.wanted) && take(backend) }
      end

      def spare? = @pool.serving > @lifespan.min_connections

      def ask(backend)
        return unless take(backend)
        alive = Restoration.new(backend, false).answers?
        backend.age.asked(backend.heard)
        alive ? @upkeep.settle(backend) : @upkeep.discard(backend)
      end

      # @return [Boolean] whether nobody used it, and nobody else gets it now
      def take(backend) = @pool.hold(backend) { @pool.router.idle?(backend) }
    end
  end
end
