# frozen_string_literal: true

module NeverBlock
  class Proxy
    # A response whose head has come. Its content is read in pieces; nothing is read ahead. The connection is kept for
    # the next exchange as soon as the end has been read, and closed if the response is closed before.
    #
    #   response.status            # => 200
    #   response["cache-control"]  # => "max-age=60"
    #   response.read              # => a piece; nil at the end
    #   response.trailers          # => [["digest", "…"]], after the end
    #   response.close
    #
    # It must be read to its end or closed: until then it holds one of the pool's connections.
    class Response
      include Enumerable

      # @api private
      # @param head [ResponseHead]
      # @param lease [Lease]
      # @param upstream [Upstream]
      # @param sent [Boolean] whether all of the request was sent: another one may follow
      def initialize(head, lease, upstream, sent)
        @head = head
        @lease = lease
        @upstream = upstream
        @sent = sent
        @content = Content.new(lease.connection, head, upstream)
        settle if @content.ended? && !upgraded?
      end

      # @return [Integer]
      def status = @head.status

      # @return [String] "1.1" or "1.0"
      def version = "1.#{@head.minor}"

      # @return [String] that came with the status; of no meaning
      def phrase = @head.phrase

      # @return [Array<Array(String, String)>] names in lower case and values, in the order of their arrival; also those
      #   of the connection, which a proxy doesn't pass on
      def fields = @head.fields

      # @api private
      # @return [Array<String>] the same: names, each with its value
      def lines = @head.lines

      # @param name [String] in lower case
      # @return [String, nil] the value; several are joined as a list (RFC 9110, section 5.3)
      def [](name)
        values = @head.values(name)
        values.join(", ") unless values.empty?
      end

      # @return [Integer, nil] Content-Length; that of a response to HEAD is of what GET would get
      def length = @head.length

      # @return [Array<Array(String, String)>] after the end of the content; empty before
      def trailers = @content.trailers

      # @return [Boolean] whether the content has been read to its end
      def ended? = @content.ended?

      # @return [Boolean] whether the upstream goes on with the protocol that was asked for: {#detach}
      def upgraded? = @head.status == 101

      # Reads the next piece; waits for it if none has come.
      # @return [String, nil] binary; nil at the end
      # @raise [ConnectionLost, InvalidResponse, TimeoutError]
      # @raise [NeverBlock::ClosedError] if the response was closed before its end
      def read
        return if @content.ended?
        raise ClosedError, "the response of #{@upstream} was closed before its end" unless @lease.connection
        advance
      end

      # @api private
      # Reads what has come with the head, without a wait.
      # @return [String, nil] a piece; nil: none has come
      # @raise [ConnectionLost, InvalidResponse]
      def read_ahead = (advance(ahead: true) unless @content.ended?)

      # @yieldparam piece [String] binary
      # @return [self]
      # @raise as {#read}
      def each
        return enum_for unless block_given?
        while (piece = read)
          yield piece
        end
        self
      end

      # After 101 (Switching Protocols): hands the socket over. It is the caller's to close, and no longer counts in the
      # pool.
      # @return [Array(IO, String)] the socket, and what was already read from it
      # @raise [NeverBlock::ClosedError] if there is no socket to hand over
      def detach
        unless upgraded? && @lease.connection
          raise ClosedError, "the response of #{@upstream}, #{status}, has no socket to hand over: only one to an " \
            "upgrade has, once"
        end
        connection = @lease.detach
        [connection.io, connection.unread]
      end

      # Ends the exchange. A connection whose response was not read to its end is closed.
      # @return [void]
      def close = @lease.abandon

      # @return [String]
      def inspect = "#<#{self.class} #{status} of #{@upstream}>"

      private

      def advance(ahead: false)
        piece = ahead ? @content.ahead : @content.next
        settle if @content.ended?
        whole = true
        piece
      ensure
        # An error, a cancellation, a kill: where the stream stands is not known.
        @lease.abandon unless whole
      end

      def settle
        (@sent && @content.clean?) ? @lease.keep : @lease.abandon
      end
    end
  end
end
