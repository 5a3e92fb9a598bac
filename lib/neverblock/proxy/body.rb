# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The content of a response, as a Rack body: each piece is read when the one before it was taken. An upstream that
    # fails in the middle ends it with an error, so that the server cuts the client's response off.
    # @api private
    class Body
      # More content than allowed.
      class TooLarge < NeverBlock::ProtocolError
        include Error
      end

      # @param response [Response]
      # @param limit [Integer, nil] bytes
      # @param first [String, nil] a piece that was read already
      # @yield once, when the exchange is over: with the error that ended it, or nil
      def initialize(response, limit, first = nil, &over)
        @response = response
        @first = first
        @limit = limit
        @over = over
      end

      # @yieldparam piece [String]
      # @return [void]
      # @raise [ConnectionLost, InvalidResponse, TimeoutError, TooLarge]
      def each
        count = 0
        while (piece = take)
          refuse if @limit && (count += piece.bytesize) > @limit
          yield piece
        end
      rescue Error => error
        @failure = error
        error.set_backtrace([]) # for the log: where it was noticed says nothing
        # A server gathers small pieces until the next wait, and takes them back for a 500 if none was sent.
        sleep(0)
        raise
      end

      # Our server asks for them after the content, if the client looks at trailers.
      # @return [Hash{String=>String, Array<String>}] those that are for the client
      def trailers = HopByHop.trailers(@response.trailers)

      # @return [void]
      def close
        @response.close
      ensure
        over, @over = @over, nil
        over&.call(@failure)
      end

      private

      def take
        first, @first = @first, nil
        first || @response.read
      end

      def refuse
        raise TooLarge, "the upstream's response has more than #{@limit} bytes (max_response_body:), and is cut off"
      end
    end
  end
end
