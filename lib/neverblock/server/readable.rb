# frozen_string_literal: true

module NeverBlock
  class Server
    # Adds the other reading methods of IO to a class with `read`, `readpartial`, `gets` and `pos`. It reads binary
    # Strings.
    #
    #   class Input
    #     include Readable
    #   end
    #   env["rack.input"].each_line(chomp: true) { |line| … }
    # @api private
    module Readable
      # @yieldparam line [String]
      # Takes the arguments of IO#gets.
      # @return [self, Enumerator]
      def each(*arguments, **options)
        return enum_for(:each, *arguments, **options) unless block_given?
        while (line = gets(*arguments, **options))
          yield line
        end
        self
      end
      alias_method :each_line, :each

      # @yieldparam byte [Integer]
      # @return [self, Enumerator]
      def each_byte
        return enum_for(:each_byte) unless block_given?
        while (byte = getbyte)
          yield byte
        end
        self
      end

      # @return [Array<String>]
      def readlines(...) = each(...).to_a

      # @return [String]
      # @raise [EOFError]
      def readline(...) = gets(...) || end_reached

      # @return [String, nil] a byte
      def getc = read(1)

      # @return [String]
      # @raise [EOFError]
      def readchar = getc || end_reached

      # @return [Integer, nil]
      def getbyte = getc&.ord

      # @return [Integer]
      # @raise [EOFError]
      def readbyte = getbyte || end_reached

      # @see IO#sysread
      def sysread(...) = readpartial(...)

      # Waits nevertheless; only the fiber is parked.
      # @return [String, nil]
      def read_nonblock(length, buffer = nil, exception: true)
        readpartial(length, buffer)
      rescue EOFError
        raise if exception
      end

      # @return [Integer] number of bytes that have been read
      def tell = pos

      # @return [Boolean]
      def eof = eof?

      # The rest of the body is read and dropped after the response, or the connection is closed.
      # @return [nil]
      def close = nil

      # @return [Boolean]
      def closed? = false

      # @return [self]
      def binmode = self

      # @return [Boolean]
      def binmode? = true

      # Has no effect: Strings stay binary.
      # @return [self]
      def set_encoding(*) = self

      # @return [Encoding]
      def external_encoding = Encoding::BINARY

      # @return [nil]
      def internal_encoding = nil

      # @return [Boolean]
      def tty? = false
      alias_method :isatty, :tty?

      private

      def end_reached = raise(EOFError, "end of the request's body")

      # @return [String] the buffer with the bytes as its content; without a buffer the bytes
      def deliver(piece, buffer) = buffer ? buffer.replace(piece) : piece
    end
  end
end
