# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Sends one request. While it does, it looks for a response that comes early: the rest is not sent then.
    #
    #   sender = Sender.new(connection, request, upstream, reader)
    #   sender.call       # => nil, or the head of an early response
    #   sender.complete?  # => whether all of the request was sent
    #
    # An early response is seen while the socket takes no more bytes, and before each piece of the body; not while the
    # body's source is waited for.
    # @api private
    class Sender
      BOTH = IO::READABLE | IO::WRITABLE
      # Seconds for 100 (Continue): the client must not wait for ever (RFC 9110, section 10.1.1).
      CONTINUE_LIMIT = 1
      private_constant :BOTH, :CONTINUE_LIMIT

      # @param connection [Connection]
      # @param request [Request]
      # @param upstream [Upstream]
      # @param reader [HeadReader]
      # @param deadlines [Deadlines]
      def initialize(connection, request, upstream, reader, deadlines)
        @connection = connection
        @request = request
        @upstream = upstream
        @reader = reader
        @deadlines = deadlines
        @complete = @broken = false
      end

      # @return [Boolean] whether all of the request was sent
      def complete? = @complete

      # @return [ResponseHead, nil] of an early response
      # @raise [ConnectionLost, InvalidResponse, InvalidBody, TimeoutError]
      def call
        early = send_head || send_body
        @complete = true unless early || @broken
        early
      end

      private

      def send_head
        head = @request.head(@upstream)
        body = @request.body
        if body && !@request.expects_continue? && (bytes = body.short)
          @whole = true
          head << bytes
        end
        write(head) || (@reader.wait_to_continue(CONTINUE_LIMIT) if @request.expects_continue?)
      end

      def send_body
        return if @whole || @broken || @request.body.nil?
        @request.body.each(@deadlines) do |bytes|
          early = @reader.poll || write(bytes)
          return early if early || @broken
        end
        nil
      end

      # @return [ResponseHead, nil]
      def write(bytes)
        until bytes.empty?
          count = @connection.write_some(bytes)
          if Integer === count
            bytes = (count == bytes.bytesize) ? "" : bytes.byteslice(count..)
          elsif (early = blocked(count))
            return early
          end
        end
        nil
      rescue ConnectionLost
        # It may have responded and then closed its end: what it said is perhaps still there.
        @broken = true
        nil
      end

      def blocked(direction)
        came = @connection.wait((direction == :wait_writable) ? BOTH : IO::READABLE, :idle)
        @reader.poll if came.anybits?(IO::READABLE)
      end
    end
  end
end
