# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Multiplexer
      # From the first statement to the last: connections opened in advance, the adapters' virtual connections, the
      # calls of {Janitor}, a fork, the end.
      #
      #   multiplexer.joined     # an adapter's virtual connection is open
      #   multiplexer.parted     # … and closed: idle connections are closed with the last one
      #   multiplexer.disown     # in a forked child
      #   multiplexer.close
      # @api private
      module Lifecycle
        # Callback of {Pool}: a connection was opened.
        # @return [void]
        def opened
          Janitor.watch(self) unless @pooled
          Janitor.watch(@turnover) if @lifespan.any?
          @warm_start.begin
        end

        # An adapter has opened a virtual connection that it will close.
        # @return [void]
        def joined
          @sessions&.joined
          @lock.synchronize { @members += 1 }
        end

        # An adapter has closed a virtual connection. With the last of them the idle connections are closed, as in a
        # plain pool: DROP DATABASE fails while any is open.
        # @return [void]
        def parted
          @sessions&.parted
          return unless @lock.synchronize { @members -= 1 } == 0
          cool_down
          @pool.rest
        end

        # Closes all connections. Statements in flight fail.
        # @return [void]
        def close
          @sessions&.close
          @pool.close
        end

        # @return [Float] when {Janitor} calls next, on the monotonic clock
        attr_accessor :due

        # @return [Integer] seconds between two calls of {Janitor}
        def every = Janitor::INTERVAL

        # Called by {Janitor}'s thread.
        # @return [Boolean] false: it was the last time
        def look_around
          @catalogue&.expire
          @upkeep.look_around
          !@pool.closed?
        end

        # Called in a forked child: lets go of the parent's connections.
        # @return [void]
        def disown
          @factory.disown
          @pool.connections.each(&:disown)
          closed = @pool.closed?
          @turnover.end
          start
          @pool.close if closed
        end

        private

        # From now on at least `min_connections` are open.
        def warm_up
          @cold = false
          Janitor.watch(@turnover)
          @warm_start.activate
        end

        # No connection is opened in advance until the next statement.
        def cool_down
          @warm_start.rest
          @cold = @lifespan.min_connections > 0
        end
      end
    end
  end
end
