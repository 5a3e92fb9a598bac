# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Overtime
      # Watches the time for a fiber or thread that waits inside libpq, and has the statement cancelled after the limit.
      #
      #   lookout = Lookout.new(5, connection) { … }   # the block is called if the server stays silent
      #   pg.exec(sql)
      #   lookout.end                                      # waits until no request to cancel is on its way
      #
      # @api private
      class Lookout
        include MonotonicClock

        # @param limit [Numeric] seconds
        # @param connection [PipelinedConnection]
        # @yield when the server has not cancelled it {GRACE} seconds later
        def initialize(limit, connection, &lost)
          @limit = limit
          @connection = connection
          @lost = lost
          @late = @gone = false
          @over = Thread::Queue.new
          @ended = Thread::Queue.new
          beside { watch }
        end

        # @return [Boolean] whether the server was asked
        def late? = @late

        # @return [Boolean] whether the server has stayed silent
        def lost? = @gone

        # The result has arrived.
        # @return [void] when no request to cancel is on its way
        def end
          leave
          @ended.pop if @late
        end

        # The wait has ended.
        # @return [void]
        def leave = @over.close

        private

        def beside(&)
          Scheduler.current ? Scheduler.current.transient(&) : Thread.new(&)
        end

        def watch
          return if left?(@limit)
          @late = true
          since = now
          loop do
            told = Cancellation.ask(@connection.pg)
            @connection.stale = true unless told
            break if left?(PipelinedConnection::RECANCEL_AFTER)
            break lose if now - since > GRACE
          end
        ensure
          @ended.close
        end

        def left?(seconds)
          @over.pop(timeout: seconds)
          @over.closed?
        end

        def lose
          @gone = true
          @lost.call
        end
      end
    end
  end
end
