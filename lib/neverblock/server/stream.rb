# frozen_string_literal: true

require_relative "input"

module NeverBlock
  class Server
    # The stream that a streaming body is called with (Rack 3). It writes to the client and reads the request's body,
    # or, after 101 Switching Protocols, the connection itself. It is closed when the body's `call` returns.
    #
    #   body = proc do |stream|
    #     stream << "data: hello\n\n"
    #     stream.flush
    #   end
    #   [200, {"content-type" => "text/event-stream"}, body]
    class Stream
      # @api private
      # @param request [Request]
      # @param input [#read, nil] the request's body; nil: the connection itself
      def initialize(request, input = nil)
        @request = request
        @input = input || Input.new(request)
        @writable = true
      end

      # @param pieces [Array<#to_s>]
      # @return [Integer] bytes
      # @raise [IOError] if it is closed, or the client has left
      def write(*pieces)
        raise IOError, "the stream is closed for writing" unless @writable
        pieces.sum { |piece| @request.write(piece.to_s) }
      end

      # @return [self]
      def <<(piece)
        write(piece)
        self
      end

      def write_nonblock(piece, exception: true) = write(piece)

      # Sends the gathered bytes.
      # @return [self]
      def flush
        @request.flush if @writable
        self
      end

      # @see Input#read
      def read(...) = @input.read(...)

      # @see Input#readpartial
      def readpartial(...) = @input.readpartial(...)

      def read_nonblock(length, buffer = nil, exception: true) = readpartial(length, buffer)

      # @see Input#gets
      def gets(...) = @input.gets(...)

      # @return [Boolean]
      def eof? = @input.eof?

      # @return [nil]
      def close_read = nil

      # @return [nil]
      def close_write
        return unless @writable
        @writable = false # before shutting down, which lets waiting writers go on
        @request.flush if @request.open?
        nil
      end

      # @return [nil]
      def close = close_write

      # @return [Boolean]
      def closed? = !@writable || !@request.open?

      def sync = true

      def sync=(value)
      end
    end
  end
end
