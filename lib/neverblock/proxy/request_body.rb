# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The content of a request, in pieces of a bounded size and framed for the connection: by Content-Length if its
    # length is known, else in chunks (RFC 9112, section 6).
    #
    #   body = RequestBody.new(File.open("x.png"), 1_024)
    #   body.each { |bytes| connection.write(bytes) }   # raises InvalidBody unless there are 1024 bytes
    # @api private
    class RequestBody
      # Bytes of one piece.
      PIECE = 64 << 10
      LAST_CHUNK = "0\r\n\r\n"
      LENGTH = ValueType.count(most: ValueType::LARGEST_BYTES)
      private_constant :LAST_CHUNK, :LENGTH

      # @return [Integer, nil] bytes; nil: not known
      attr_reader :length

      # @param source [String, #read, #each] bytes, a readable or pieces
      # @param length [Integer, nil] bytes that it has; nil: not known, but for a String
      # @raise [InvalidRequest, InvalidBody]
      def initialize(source, length)
        unless String === source || source.respond_to?(:read) || source.respond_to?(:each)
          raise InvalidRequest, "body: #{source.class} can't be sent. Give a String, or something with `read` or `each`"
        end
        @source = source
        @length = length.nil? ? (source.bytesize if String === source) : check(length)
        mismatch(source.bytesize) if String === source && source.bytesize != @length
        @begun = false
        @start = start
      end

      # @return [Boolean] whether the same bytes can be sent once more: those of a String, and those of a source that
      #   nothing was read from, or that was at its beginning and can be rewound
      def repeatable? = String === @source || !@begun || !@start.nil?

      # @return [void]
      def rewind
        @source.rewind if @begun && @start
        @begun = false
      end

      # @return [String, nil] the whole of a short String, to be sent with the head
      def short = (@source.b if String === @source && @source.bytesize.between?(1, PIECE))

      # The last chunk comes as a piece too.
      # @param deadlines [Deadlines] whose total limits the reads from the source too
      # @yieldparam bytes [String] framed
      # @return [void]
      # @raise [InvalidBody] if there are more or fewer bytes than announced
      # @raise [TotalTimeout]
      def each(deadlines)
        sent = 0
        pieces(deadlines) do |piece|
          sent += piece.bytesize
          mismatch(sent) if @length && sent > @length
          yield @length ? piece : chunk(piece)
        end
        mismatch(sent) if @length && sent != @length
        yield LAST_CHUNK unless @length
      end

      private

      def check(length)
        LENGTH.check(length) { "length:" }
      rescue ArgumentError => error
        raise InvalidRequest, error.message
      end

      # IO#pos of a pipe or socket raises; Rack's input may have no pos.
      def start
        return unless @source.respond_to?(:rewind) && @source.respond_to?(:pos)
        0 if @source.pos.zero?
      rescue SystemCallError, IOError
        nil
      end

      def pieces(deadlines, &)
        @begun = true
        if String === @source then slices(@source, &)
        elsif @source.respond_to?(:read)
          while (piece = deadlines.limit_total { @source.read(PIECE) })
            break if piece.empty?
            slices(piece, &)
          end
        else
          @source.each { |piece| slices(piece, &) }
        end
      end

      def slices(bytes)
        raise InvalidBody, "a piece of the request's body is no String but #{bytes.class}" unless String === bytes
        bytes = bytes.b unless bytes.encoding == Encoding::BINARY
        return (yield bytes unless bytes.empty?) if bytes.bytesize <= PIECE
        0.step(bytes.bytesize - 1, PIECE) { |at| yield bytes.byteslice(at, PIECE) }
      end

      def chunk(bytes) = "#{bytes.bytesize.to_s(16)}\r\n".b << bytes << "\r\n"

      def mismatch(sent)
        raise InvalidBody, "the request's body has #{(sent > @length) ? "more than" : "#{sent} of"} the #{@length} " \
          "bytes that were announced. Give the right length:, or none"
      end
    end
  end
end
