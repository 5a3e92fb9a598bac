# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # Counts of connections and waiting requests, for {Snapshot} and messages.
      #
      #   router.stats[:idle]       # => 3
      #   router.holdings           # => [[connection, holder]]
      # @api private
      module Figures
        # @return [Hash{Symbol=>Integer}]
        def stats
          {connections: @connections.size, opening: @opening, idle: @idle.size, held: @held,
           in_flight: @connections.sum(&:depth), queued: waiting}
        end

        # @return [Hash{Symbol=>Object}] `size` (the limit), `busy`, and the number of connections in each of `states`
        def uses
          leased, rest = @connections.filter_map(&:holder).partition(&:lease?)
          alone, restoring = rest.partition(&:alone?)
          busy = @connections.size - @idle.size
          states = {idle: @idle.size, shared: busy - leased.size - rest.size, alone: alone.size, leased: leased.size,
                    restoring: restoring.size, opening: @opening}
          {size: @limit, busy:, states:}
        end

        # @return [Boolean] whether the request is in a queue
        def queued?(request) = @exclusive.include?(request) || @shared.include?(request)

        # @return [Float, nil] when the oldest waiting request was queued, on the monotonic clock
        def queued_since = (@shared.to_a + @exclusive.to_a).filter_map(&:queued_at).min

        # @return [Array<Array(PipelinedConnection, Holder)>] the held connections
        def holdings = @connections.filter_map { |connection| [connection, connection.holder] if connection.holder }
      end
    end
  end
end
