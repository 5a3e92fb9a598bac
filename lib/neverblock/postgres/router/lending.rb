# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # The way of most shared statements where there is nothing to arrange: an idle connection is lent to one, and taken back as it was.
      #
      #   connection = router.lend(statement)
      #   router.take_back(connection) || router.settle(connection)
      #
      # One connection is left to share, and nothing is lent in a crowd: statements go together then.
      # @api private
      module Lending
        # Statements on one connection that tell that there are more of them than connections.
        CROWDED_DEPTH = 3

        # @param request [Statement]
        # @return [PipelinedConnection, nil] an idle one, for this statement alone
        def lend(request)
          connection = @idle.last
          return unless connection && @deepest < CROWDED_DEPTH && @held + @lent + 1 < @limit && connection.session_defaults.equal?(request.session_defaults)
          @idle.pop
          @lent += 1
          @shared_at = now
          connection.loop = request.loop
          connection.lent = true
          connection
        end

        # @param connection [PipelinedConnection] that was lent, and is as it was
        # @return [Boolean] whether it is idle again; false: it is to be settled, since something waits
        def take_back(connection)
          return false unless @shared.empty? && @exclusive.empty? && !connection.draining && !connection.relieving
          call_in(connection)
          connection.loop = nil
          @idle << connection
          true
        end

        # It is no statement's alone any more.
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
