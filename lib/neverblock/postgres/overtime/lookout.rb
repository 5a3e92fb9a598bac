# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Overtime
      # Looks at the time beside a fiber or thread that waits in libpq itself, and asks the server to give up what that waits for.
      #
      #   lookout = Lookout.new(5, 10, connection) { … }   # the block: nothing was heard from the server
      #   pg.exec(sql)
      #   lookout.end                               # no request is under way any more
      #
      # @api private
      class Lookout
        # @param limit [Numeric] seconds
        # @param grace [Numeric] seconds
        # @param connection [PipelinedConnection]
        # @yield when the server has not given it up in time
        def initialize(limit, grace, connection, &lost)
          @limit = limit
          @grace = grace
          @connection = connection
          @lost = lost
          @late = @gone = false
          @over = Thread::Queue.new
          @ended = Thread::Queue.new
          beside { watch }
        end

        # @return [Boolean] whether the server was asked
        def late? = @late

        # @return [Boolean] whether it has not answered
        def lost? = @gone

        # The answer has come.
        # @return [void] when no request is under way
        def end
          leave
          @ended.pop if @late
        end

        # Nothing is waited for any more.
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
            break lose if now - since > @grace
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

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
