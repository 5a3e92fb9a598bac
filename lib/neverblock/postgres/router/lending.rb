# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # The way of most shared statements where there is nothing to arrange: an idle connection is lent to one, and taken back as it was.
      #
      #   backend = router.lend(statement)
      #   router.take_back(backend) || router.settle(backend)
      #
      # One connection is left to share, and nothing is lent in a crowd: statements go together then.
      # @api private
      module Lending
        # Statements on one connection that tell that there are more of them than connections.
        CROWD = 3

        # @param request [Statement]
        # @return [Backend, nil] an idle one, for this statement alone
        def lend(request)
          backend = @idle.last
          return unless backend && @deepest < CROWD && @held + @lent + 1 < @limit && backend.profile.equal?(request.profile)
          @idle.pop
          @lent += 1
          @shared_at = now
          backend.loop = request.loop
          backend.lent = true
          backend
        end

        # @param backend [Backend] that was lent, and is as it was
        # @return [Boolean] whether it is idle again; false: it is to be settled, since something waits
        def take_back(backend)
          return false unless @shared.empty? && @exclusive.empty? && !backend.reserved && !backend.relieving
          call_in(backend)
          backend.loop = nil
          @idle << backend
          true
        end

        # It is no statement's alone any more.
        # @param backend [Backend]
        # @return [void]
        def call_in(backend)
          return unless backend.lent
          backend.lent = false
          @lent -= 1
        end
      end
    end
  end
end
