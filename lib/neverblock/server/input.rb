# frozen_string_literal: true

module NeverBlock
  class Server
    # rack.input of a request whose body is still on its way (`request_body :stream`): reading parks the fiber until
    # the client has sent more, and a client is held back while nobody reads. It can't be rewound.
    #
    #   while (piece = env["rack.input"].read(65_536))
    #     file.write(piece)
    #   end
    class Input
      PIECE = 65_536
      private_constant :PIECE

      # @api private
      # @param request [Request]
      def initialize(request)
        @request = request
        @unread = +"".b
        @ended = false
      end

      # @param length [Integer, nil] bytes; nil reads to the end
      # @param buffer [String, nil] what is read replaces its content
      # @return [String, nil] nil at the end, where a length above 0 was given
      # @raise [EOFError] if the client leaves before the end
      def read(length = nil, buffer = nil)
        fill until @ended || (length && @unread.bytesize >= length)
        take(length || @unread.bytesize, buffer, end_is_nil: length && length > 0)
      end

      # @param length [Integer] at most so many bytes, as soon as there are any
      # @return [String]
      # @raise [EOFError] at the end
      def readpartial(length, buffer = nil)
        fill if @unread.empty? && length > 0
        raise EOFError, "end of the request's body" if @unread.empty? && length > 0
        take(length, buffer, end_is_nil: false)
      end

      # @return [String, nil] a line with its end
      def gets(separator = $/)
        return read.then { |rest| rest unless rest.empty? } unless separator
        take(line_length(separator) || @unread.bytesize, nil, end_is_nil: true)
      end

      # @yieldparam line [String]
      def each
        return enum_for(:each) unless block_given?
        while (line = gets)
          yield line
        end
        self
      end

      # @return [Boolean]
      def eof?
        fill if @unread.empty?
        @unread.empty?
      end

      # @return [nil] what is left is read and dropped, or ends the connection, after the answer
      def close = nil

      def external_encoding = Encoding::BINARY

      private

      # What has been looked through is not looked through again.
      def line_length(separator)
        looked = 0
        until (index = @unread.byteindex(separator, looked)) || @ended
          looked = [@unread.bytesize - separator.bytesize + 1, 0].max
          fill
        end
        index && index + separator.bytesize
      end

      def fill
        return if @ended
        piece = @request.read_some(PIECE)
        piece ? @unread << piece : @ended = true
      end

      def take(length, buffer, end_is_nil:)
        piece = @unread.slice!(0, length)
        return buffer&.clear && nil if piece.empty? && end_is_nil
        buffer ? buffer.replace(piece) : piece
      end
    end
  end
end
