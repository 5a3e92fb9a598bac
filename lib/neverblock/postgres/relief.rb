# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Cancels a statement that others wait for: those behind it on its connection, or those in the queue where every connection is
    # held and a transaction may be waiting for one of them - a fiber that holds a lock, and asks for something by other fibers. The
    # server cannot see that wait. A cancelled statement has not taken effect. Its fiber sends it again, alone on a connection.
    #
    #   relief = Relief.new(pool, cancellation, timings, tally)
    #   relief.watch                  # something waits: a task looks, as long as that is so
    #   relief.displace(statement)    # the server has confirmed that it was cancelled
    #
    # A statement that was cancelled may run for twice as long the next time, so that it ends at last, however long it takes.
    # @api private
    class Relief
      # Seconds that a statement may run while others wait, at least: more, where usual statements take long.
      CANCEL_AFTER = 0.1

      # Seconds from one look to the next; and where statements are being cancelled, since what comes to run then may wait for the same lock.
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

      # One task of a loop looks for all, since a limit for each wait would cost each statement.
      # @return [void]
      def watch
        scheduler = Scheduler.current
        return if scheduler.nil? || @watching[scheduler]&.alive?
        @watching[scheduler] = scheduler.transient { look(scheduler) }
      end

      # @param statement [Statement] that was cancelled for others
      # @return [void]
      def displace(statement)
        @tally.displaced += 1
        @timings.record(statement.fingerprint, statement.running_time, statement.longest_time) if statement.fingerprint
        statement.displace
      end

      private

      def look(scheduler)
        while @router.waits?(scheduler)
          sleep(@router.connections.any?(&:relieving) ? CANCELLING_INTERVAL : INTERVAL)
          @router.connections.dup.each { |connection| @cancellation.call(connection) { streams?(connection) } if @pool.drain(connection) { connection.loop.equal?(scheduler) && due?(connection) } }
        end
      ensure
        @watching.delete(scheduler)
      end

      # Its answer has come, and will be read in this turn of the loop. One that is still coming at the next look is too large for those
      # behind it to wait for.
      def streams?(connection)
        before, @coming[connection] = @coming[connection], connection.head
        !before.nil? && before.equal?(connection.head) && connection.holder.nil?
      end

      def due?(connection)
        head = connection.head
        return false if head.nil? || connection.asking || connection.inquiry || connection.running < patience(connection, head) || !head.displaceable?
        holder = connection.holder
        return false unless holder.nil? || holder.alone? # a transaction's statement waits as long as it likes
        connection.crowded? || (holder.nil? && connection.capacity > 1 && @router.crowded?) || @router.stuck?(CANCEL_AFTER)
      end

      def patience(connection, head)
        return [head.patience || CANCEL_AFTER, @timings.threshold].max unless connection.relieving
        connection.given_up.equal?(connection.head) ? PipelinedConnection::RECANCEL_AFTER : [head.patience || 0.0, @timings.threshold].max
      end
    end
  end
end
