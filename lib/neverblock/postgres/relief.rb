# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Cancels a statement that others wait for: statements behind it on its connection, or requests in the queue while
    # all connections are held. The latter may be a deadlock that the server can't see: a fiber holds a lock in a
    # transaction, and waits for other fibers whose statements wait for a connection. A cancelled statement has not
    # taken effect. Its fiber sends it again, alone on a connection.
    #
    # A fiber that waits for a lease gets the connection that was left to share, if it owns a lock of Ruby's (a Mutex or
    # a Monitor) for which fibers with leases wait.
    #
    #   relief = Relief.new(pool, cancellation, timings, tally)
    #   relief.watch                  # a statement waits: a task checks periodically while any does
    #   relief.displace(statement)    # the server has confirmed the cancel
    #
    # Each time a statement may run twice as long as the last, so that it ends eventually, however long it takes.
    # @api private
    class Relief
      # Seconds that a statement may run while others wait; more if usual statements take long.
      CANCEL_AFTER = 0.1

      # Seconds between checks; fewer while statements are being cancelled, since the next may wait for the same lock.
      INTERVAL = 0.03
      CANCELLING_INTERVAL = 0.005

      private_constant :INTERVAL, :CANCELLING_INTERVAL

      # @param pool [Pool]
      # @param cancellation [Cancellation]
      # @param timings [Timings]
      # @param tally [Tally]
      def initialize(pool, cancellation, timings, tally)
        @pool = pool
        @router = pool.router
        @cancellation = cancellation
        @timings = timings
        @tally = tally
        @coming = ObjectSpace::WeakMap.new
        @watching = {}.compare_by_identity
      end

      # Starts the task of this loop that checks for all statements. (A timer for each wait would cost each statement.)
      # @return [void]
      def watch
        scheduler = Scheduler.current
        return if scheduler.nil? || @watching[scheduler]&.alive?
        @watching[scheduler] = scheduler.transient { look(scheduler) }
      end

      # @param statement [Statement] one that was cancelled for others
      # @return [void]
      def displace(statement)
        @tally.displaced += 1
        @timings.held_up(statement.fingerprint, statement.running_time) if statement.fingerprint
        statement.displace
      end

      private

      def look(scheduler)
        while @router.waits?(scheduler)
          sleep(@router.connections.any?(&:relieving) ? CANCELLING_INTERVAL : INTERVAL)
          urge(scheduler)
          @router.connections.dup.each do |connection|
            drained = @pool.drain(connection) { connection.loop.equal?(scheduler) && due?(connection) }
            @cancellation.call(connection) { streams?(connection) } if drained
          end
        end
      ensure
        @watching.delete(scheduler)
      end

      # The fiber of a silent lease may wait for a lock of Ruby's, and the lock's owner for a lease.
      def urge(scheduler)
        silent = @router.connections.filter_map do |connection|
          connection.holder&.owner if connection.loop.equal?(scheduler) && connection.rests?(CANCEL_AFTER)
        end
        locks = silent.empty? ? silent : scheduler.locks_awaited(silent)
        @pool.ask(locks, scheduler) unless locks.empty?
      end

      # Its result is arriving. It is not cancelled if the result is complete before the next check; a larger one would
      # delay those behind it.
      def streams?(connection)
        before, @coming[connection] = @coming[connection], connection.head
        !before.nil? && before.equal?(connection.head) && connection.holder.nil?
      end

      # A look at the head makes a {Statement} of a read in flight: that comes last.
      def due?(connection)
        holder = connection.holder
        return false unless holder.nil? || holder.alone? # a lease's statement is never cancelled
        return false if connection.running < @timings.threshold && !connection.relieving
        head = connection.head
        if head.nil? || connection.asking || connection.inquiry || connection.running < patience(connection, head) ||
            !head.displaceable?
          return false
        end
        connection.crowded? || (holder.nil? && connection.capacity > 1 && @router.crowded?) ||
          @router.stuck?(CANCEL_AFTER)
      end

      def patience(connection, head)
        return [head.patience || CANCEL_AFTER, @timings.threshold].max unless connection.relieving
        return PipelinedConnection::RECANCEL_AFTER if connection.given_up.equal?(connection.head)
        [head.patience || 0.0, @timings.threshold].max
      end
    end
  end
end
