# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # How many connections may be held, by what: one is left to share, and one to what is not known to be slow.
      # @api private
      module Limits
        # Seconds for which a write, or a lease, is expected to come again: one connection is kept from what is known to be slow.
        WRITES_EXPECTED_FOR = 1.0

        private

        # Leases leave one to share, always; single statements do while there are others that share, but for one of them, which
        # may be a write that waits beside leases that last.
        def most_held(request)
          return @limit unless @shares
          crowded = request.lease? || (shared_lately? && @connections.any? { |connection| connection.holder&.alone? })
          crowded ? [@limit - 1, 1].max : @limit
        end

        def shared_lately? = !@shared.empty? || now - @shared_at < SHARING_EXPECTED_FOR

        def hold?(request) = @held < most_held(request) && !capped?(request)

        # A write would wait for the end of a slow read if those could have all: p50 of 190 ms beside reads of 200 ms.
        def capped?(request)
          return false unless @timings.slow?(request.fingerprint) && now - @wrote_at < WRITES_EXPECTED_FOR
          slow = [*@connections.filter_map(&:holder), *@opening_requests].count { |holder| holder.alone? && @timings.slow?(holder.fingerprint) }
          slow >= [most_held(request) - 1, 1].max
        end
      end
    end
  end
end
