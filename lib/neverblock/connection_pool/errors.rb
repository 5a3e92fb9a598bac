# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # The pool was used in a wrong way, or can't serve.
    class Error < RuntimeError
      include NeverBlock::Error
    end

    # The pool was shut down.
    class PoolShuttingDownError < Error
    end

    # The circuit breaker is open: the store failed so often that the pool asks it nothing for a while.
    class CircuitOpenError < Error
    end

    # No connection became free in time. The message names the holders.
    class TimeoutError < NeverBlock::TimeoutError
    end
  end
end
