# frozen_string_literal: true

module NeverBlock
  class Proxy
    # One exchange's hold on a connection. It ends in one of three ways, and a second end does nothing: the connection
    # is kept for others, abandoned (closed), or detached (its caller's own).
    #
    #   lease = Lease.new(pool, deadlines)
    #   lease.open               # a slot, and an idle connection or a new one
    #   lease.connection
    #   lease.keep               # or abandon, or detach
    # @api private
    class Lease
      # @return [Connection, nil]
      attr_accessor :connection
      # @return [Boolean, nil] whether it holds one of the pool's slots
      attr_accessor :slot
      # @return [Slots] of the pool, when the lease began; a fork gives the pool others
      attr_reader :slots

      # @param pool [ConnectionPool]
      # @param deadlines [Deadlines]
      # @param preface [String, nil] the first bytes of a connection that is for this lease alone
      def initialize(pool, deadlines, preface = nil)
        @pool = pool
        @deadlines = deadlines
        @preface = preface
        @slots = pool.slots
      end

      # @return [Connection] an idle one, or a new one
      # @raise [OverloadError, ConnectError, TimeoutError, ClosedError]
      def open
        @pool.admit(self, @deadlines)
        @pool.take(self) unless @preface
        @connection ? @connection.begin(@deadlines) : connect
      end

      # Closes the connection, and opens another one in its slot.
      # @return [Connection]
      # @raise [ConnectError, TimeoutError, ClosedError]
      def reopen
        close
        connect
      end

      # Ends the lease; the connection is for the next exchange.
      # @return [void]
      def keep
        connection = @connection or return
        quiet = connection.drained? || connection.quiet?
        return abandon unless quiet && @preface.nil? && @slots.equal?(@pool.slots)
        connection.rest
        @pool.give(self)
      end

      # Ends the lease and closes the connection.
      # @return [void]
      def abandon
        close
      ensure
        @slots.release(self)
      end

      # Ends the lease; the connection is the caller's.
      # @return [Connection]
      def detach
        connection, @connection = @connection, nil
        @slots.release(self)
        connection
      end

      private

      def connect
        @connection = Connection.new(@pool.dial(@deadlines, @preface), @pool.upstream)
        return @connection.begin(@deadlines) if @connection.quiet?
        raise InvalidResponse.new("upstream #{@pool.upstream}: it sent bytes, or closed the connection, before there " \
          "was a request. Is it a server of HTTP?", upstream: @pool.upstream, phase: :connect)
      end

      def close
        connection = @connection or return
        @slots.equal?(@pool.slots) ? connection.close : connection.disown
        @connection = nil
      end
    end
  end
end
