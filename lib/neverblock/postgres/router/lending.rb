# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # The fast path of shared statements: an idle connection is lent to one statement, then taken back unchanged.
      #
      #   connection = router.lend(read, now)
      #   router.take_back(connection) || router.settle(connection)
      #
      # One connection is left to share. In a crowd none is lent, so that statements go out together.
      # @api private
      module Lending
        # Statements on one connection from which on it counts as a crowd: more statements than connections.
        CROWDED_DEPTH = 3

        # @param request [Read]
        # @param time [Float] now, on the monotonic clock
        # @return [PipelinedConnection, nil] an idle connection, lent to this statement
        def lend(request, time)
          connection = @idle.last
          return unless connection && @deepest < CROWDED_DEPTH && @held + @lent + 1 < @limit &&
            connection.session_defaults.equal?(request.session_defaults)
          # The request has it before an exception from outside can arrive, which is where a method ends.
          request.connection = @idle.pop
          @lent += 1
          @shared_at = time
          connection.loop = request.loop
          connection.lent = true
          connection
        end

        # @param connection [PipelinedConnection] one that was lent, with its session unchanged
        # @return [Boolean] whether it is idle again; false: call {Router#settle}, since requests wait
        def take_back(connection)
          return false unless @shared.empty? && @exclusive.empty? && !connection.draining && !connection.relieving
          call_in(connection)
          connection.loop = nil
          @idle << connection
          true
        end

        # Ends the loan: other statements may share the connection.
        # @param connection [PipelinedConnection]
        # @return [void]
        def call_in(connection)
          return unless connection.lent
          connection.lent = false
          @lent -= 1
        end
      end
    end
  end
end
