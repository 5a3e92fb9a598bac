# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The content of a response, in pieces as they come. Between two calls nothing is read, so a slow reader slows the
    # upstream down.
    #
    #   content = Content.new(connection, head, upstream)
    #   content.next       # => "a piece"; nil after the last one
    #   content.ahead      # => what has come already
    #   content.ended?     # => true, already with the last piece if its end is known by then
    #   content.clean?     # => whether a next response can be told apart from this one
    # @api private
    class Content
      NONE = [].freeze
      private_constant :NONE

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
        @trailers = NONE
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

      # A piece of what has come already. Nothing is waited for.
      # @return [String, nil] binary; nil: nothing of it has come
      # @raise [ConnectionLost, InvalidResponse] if an error has come
      def ahead
        return if @ended || !come?
        piece = (@head.delimiter == :chunked) ? decode : self.next
        piece unless piece.nil? || piece.empty?
      end

      private

      # A plain socket that the head's last read has emptied is not tried: that would cost each response a read. TLS may
      # have bytes, or the end, beyond what was read.
      def come?
        return true unless @connection.unread.empty?
        return false if @connection.drained?
        case @connection.receive_now
        when true then return true
        when false then (@head.delimiter == :close) ? @ended = true : cut
        end
        false
      end

      def measured
        piece = @connection.take(@left) or cut
        @left -= piece.bytesize
        @ended = @left.zero?
        piece
      end

      def decoded
        loop do
          data = decode
          return data unless data.empty?
          return if @ended
        end
      end

      # @return [String] empty: only the beginning of a chunk has come, or the end
      def decode
        bytes = @connection.take(Connection::PIECE) or cut
        data = @chunks.feed(bytes) or invalid(@chunks.reason)
        finish if @chunks.ended?
        data
      end

      def finish
        trailers = @chunks.trailers(ResponseParser::MAX_FIELDS)
        invalid(trailers) if String === trailers
        @trailers = trailers.each_slice(2).to_a
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
