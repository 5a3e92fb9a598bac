# frozen_string_literal: true

require_relative "readable"

module NeverBlock
  class Server
    # rack.input of a request whose body is still being sent (`request_body :stream`). Reading parks the fiber until
    # more has arrived. While the app does not read, the client is held back. It can't be rewound.
    #
    #   while (piece = env["rack.input"].read(65_536))
    #     file.write(piece)
    #   end
    class Input
      include Readable

      PIECE = 65_536
      private_constant :PIECE

      # @return [Integer] number of bytes that have been read
      attr_reader :pos

      # @api private
      # @param request [Request]
      def initialize(request)
        @request = request
        @unread = +"".b
        @ended = false
        @pos = 0
      end

      # @param length [Integer, nil] bytes; nil reads to the end
      # @param buffer [String, nil] its content is replaced by the read bytes
      # @return [String, nil] nil at the end, if a length above 0 was given
      # @raise [EOFError] if the client leaves before the end
      # @raise [ArgumentError] for a negative length
      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length&.negative?
        fill until @ended || (length && @unread.bytesize >= length)
        piece = deliver(take(length || @unread.bytesize), buffer)
        piece unless piece.empty? && length&.positive?
      end

      # Returns as soon as there are any bytes.
      # @param length [Integer] at most so many bytes
      # @return [String]
      # @raise [EOFError] at the end
      def readpartial(length, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length.negative?
        end_reached if length.positive? && eof?
        deliver(take(length), buffer)
      end

      # @param separator [String, nil] the end of a line; nil: read to the end; "": paragraphs, as in IO#gets
      # @param limit [Integer, nil] bytes of a line at most
      # @param chomp [Boolean] whether the separator is removed
      # @return [String, nil] a line
      def gets(separator = $/, limit = nil, chomp: false)
        separator, limit = $/, separator if Integer === separator
        return "".b if limit&.zero?
        limit = nil if limit&.negative?
        return read(limit)&.then { |rest| rest unless rest.empty? } unless separator
        skip_empty_lines if separator.empty?
        ending = separator.empty? ? "\n\n" : separator.b
        line = take(line_length(ending, limit))
        skip_empty_lines if separator.empty?
        return if line.empty?
        chomp ? line.chomp(ending) : line
      end

      # @return [Boolean]
      def eof?
        fill while @unread.empty? && !@ended
        @unread.empty?
      end

      private

      # Bytes that were searched before are not searched again.
      def line_length(ending, limit)
        looked = 0
        until (index = @unread.byteindex(ending, looked)) || @ended || (limit && @unread.bytesize >= limit)
          looked = [@unread.bytesize - ending.bytesize + 1, 0].max
          fill
        end
        [index ? index + ending.bytesize : @unread.bytesize, *limit].min
      end

      def skip_empty_lines
        take(1) while !eof? && @unread.start_with?("\n")
      end

      def fill
        return if @ended
        piece = @request.read_some(PIECE)
        piece ? @unread << piece : @ended = true
      end

      def take(length)
        piece = @unread.slice!(0, length)
        @pos += piece.bytesize
        piece
      end
    end
  end
end
