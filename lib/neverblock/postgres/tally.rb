# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The counters of one {Multiplexer}. They only grow; a forked child begins at zero.
    #
    #   tally.leaks += 1
    #   tally.answered(connection.holder)
    #   tally.to_h[:statements]   # => {shared: 900, alone: 31, leased: 8}
    # @api private
    class Tally
      # @return [Integer] requests that waited for a connection; that timed out; that were refused as too many waited
      attr_accessor :waits, :timeouts, :refused
      # @return [Float] seconds that all requests together waited
      attr_accessor :waited
      # @return [Integer] statements that were executed again after an unknown outcome (`retry: true`); that were sent
      #   again because their prepared statement was missing or stale; that moved to another connection because theirs
      #   was lost before they were sent
      attr_accessor :unknown, :renamed, :moved
      # @return [Integer] statements that were cancelled for others; that exceeded `query_timeout`
      attr_accessor :displaced, :timed_out
      # @return [Integer] shared connections on which session state was found; audits; resets
      attr_accessor :leaks, :audits, :restored
      # @return [Integer] connections that were opened; that were closed or lost
      attr_accessor :opened, :lost

      def initialize
        @shared = @alone = @leased = 0
        @waits = @timeouts = @refused = @unknown = @renamed = @moved = @displaced = @timed_out = 0
        @leaks = @audits = @restored = @opened = @lost = 0
        @waited = 0.0
      end

      # Counts a statement whose result has arrived.
      # @param holder [Holder, nil] of its connection
      # @return [void]
      def answered(holder)
        if holder.nil?
          @shared += 1
        elsif holder.lease?
          @leased += 1
        else
          @alone += 1
        end
      end

      # @return [Hash{Symbol=>Object}] for {Snapshot}
      def to_h
        {
          statements: {shared: @shared, alone: @alone, leased: @leased},
          waits: {count: @waits, seconds: @waited.round(6), timeouts: @timeouts, refused: @refused},
          retries: {unknown: @unknown, renamed: @renamed, moved: @moved},
          displaced: @displaced, timed_out: @timed_out, leaks: @leaks, audits: @audits, restored: @restored,
          opened: @opened, lost: @lost
        }
      end
    end
  end
end
