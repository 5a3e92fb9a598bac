# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # How many connections each kind of request may hold: one is left to share, and one to statements that are not
      # known to be slow.
      # @api private
      module Limits
        # Seconds after a write or lease in which another is expected: known-slow statements leave a connection for it.
        WRITES_EXPECTED_FOR = 1.0

        private

        # Leases always leave one connection to share, unless others with leases wait for their fiber. Exclusive
        # statements do while others share; one of them may have the last, since it may be a write that waits beside
        # long leases.
        def most_held(request)
          return @limit if !@shares || request.urgent?
          crowded = request.lease? || (shared_lately? && @connections.any? { |connection| connection.holder&.alone? })
          crowded ? [@limit - 1, 1].max : @limit
        end

        def shared_lately? = !@shared.empty? || now - @shared_at < SHARING_EXPECTED_FOR

        def hold?(request) = @held < most_held(request) && !capped?(request)

        def capped?(request) = slow_enough?(request) || alike_enough?(request)

        # If slow reads could have all connections, a write would wait for one: p50 was 190 ms beside reads of 200 ms.
        def slow_enough?(request)
          return false unless @timings.slow?(request.fingerprint) && now - @wrote_at < WRITES_EXPECTED_FOR
          slow = alone.count { |statement| @timings.slow?(statement.fingerprint) }
          slow >= [most_held(request) - 1, 1].max
        end

        # While others wait, statements of one shape leave a connection: a shape that a busy server has made a slow one
        # would wait for all sleeping ones.
        def alike_enough?(request)
          shape = request.fingerprint
          return false unless shape && @shares && @held >= @limit - 1 && @held > 0
          alone.count { |other| other.fingerprint.equal?(shape) } >= @limit - 1 &&
            @exclusive.any? { |other| !other.lease? && !other.fingerprint.equal?(shape) }
        end

        # @return [Array<Statement>] those that have a connection exclusively, or will have one that is being opened
        def alone = [*@connections.filter_map(&:holder), *@opening_requests].select(&:alone?)
      end
    end
  end
end
