# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What the connections of one {Multiplexer} have done, counted where it happens: an Integer that grows, and nothing else. A forked
    # child has one of its own, from zero.
    #
    #   tally.leaks += 1
    #   tally.answered(connection.holder)
    #   tally.to_h[:statements]   # => {shared: 900, alone: 31, leased: 8}
    # @api private
    class Tally
      # @return [Integer] requests that waited for a connection; that did so in vain; that were refused, since too many waited
      attr_accessor :waits, :timeouts, :refused
      # @return [Float] seconds that requests waited, all together
      attr_accessor :waited
      # @return [Integer] statements that were executed again, their outcome being unknown (`retry: true`); that were sent again, since the
      #   server had no such name any more, or an old plan; that found another connection, since theirs went before they were sent
      attr_accessor :unknown, :renamed, :moved
      # @return [Integer] statements that were cancelled for others; that ran for longer than `query_timeout`
      attr_accessor :displaced, :timed_out
      # @return [Integer] connections that kept something; that were asked what they keep; that were made as new
      attr_accessor :leaks, :audits, :restored
      # @return [Integer] connections that were opened; that ended
      attr_accessor :opened, :lost

      def initialize
        @shared = @alone = @leased = 0
        @waits = @timeouts = @refused = @unknown = @renamed = @moved = @displaced = @timed_out = 0
        @leaks = @audits = @restored = @opened = @lost = 0
        @waited = 0.0
      end

      # A statement has its answer.
      # @param holder [Holder, nil] what had its connection
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

      # @return [Hash{Symbol=>Object}] a part of {Snapshot}'s
      def to_h
        {
          statements: {shared: @shared, alone: @alone, leased: @leased},
          waits: {count: @waits, seconds: @waited.round(6), timeouts: @timeouts, refused: @refused},
          retries: {unknown: @unknown, renamed: @renamed, moved: @moved},
          displaced: @displaced, timed_out: @timed_out, leaks: @leaks, audits: @audits, restored: @restored, opened: @opened, lost: @lost
        }
      end
    end
  end
end
