# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The content of a response, in pieces as they come. Between two calls nothing is read, so a slow reader slows the
    # upstream down.
    #
    #   content = Content.new(connection, head, upstream)
    #   content.next       # => "a piece"; nil after the last one
    #   content.ended?     # => true, already with the last piece if its end is known by then
    #   content.clean?     # => whether a next response can be told apart from this one
    # @api private
    class Content
      # @return [Array<Array(String, String)>] names in lower case and values; empty before the end
      attr_reader :trailers

      # @param connection [Connection]
      # @param head [ResponseHead]
      # @param upstream [Upstream]
      def initialize(connection, head, upstream)
        @connection = connection
        @head = head
        @upstream = upstream
        @left = head.length if head.delimiter == :length
        @chunks = ResponseParser::Chunks.new if head.delimiter == :chunked
        @trailers = []
        @ended = head.delimiter == :empty || @left == 0
      end

      # @return [Boolean]
      def ended? = @ended

      # @return [Boolean] whether it has ended, the connection is kept alive, and there was no surplus byte
      def clean? = @ended && @head.keep_alive && @connection.unread.empty? && (@chunks.nil? || @chunks.surplus.zero?)

      # @return [String, nil] binary
      # @raise [ConnectionLost, InvalidResponse, TimeoutError]
      def next
        return if @ended
        case @head.delimiter
        when :length then measured
        when :chunked then decoded
        else until_close
        end
      end

      private

      def measured
        piece = @connection.take(@left) or cut
        @left -= piece.bytesize
        @ended = @left.zero?
        piece
      end

      def decoded
        loop do
          bytes = @connection.take(Connection::PIECE) or cut
          data = @chunks.feed(bytes) or invalid(@chunks.reason)
          finish if @chunks.ended?
          return data unless data.empty?
          return if @ended
        end
      end

      def finish
        trailers = @chunks.trailers(ResponseParser::MAX_FIELDS)
        invalid(trailers) if String === trailers
        @trailers = trailers
        @ended = true
      end

      def until_close
        piece = @connection.take(Connection::PIECE)
        @ended = true if piece.nil?
        piece
      end

      def cut = @connection.lost("the connection ended before the content did, which is cut off", :body)

      def invalid(reason)
        raise InvalidResponse.new("upstream #{@upstream}: invalid content: #{reason}. Its connection is closed; see " \
          "what it sends", upstream: @upstream, phase: :body)
      end
    end
  end
end
