# frozen_string_literal: true

require_relative "readable"

module NeverBlock
  class Server
    # rack.input of a request without a body: one object for all, since it has no position to lose.
    # @api private
    class EmptyInput
      include Readable

      # @return [String, nil] nil where bytes were asked for, as at any stream's end
      # @raise [ArgumentError] for a negative length
      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length&.negative?
        piece = deliver("".b, buffer)
        piece unless length&.positive?
      end

      # @return [String] of no bytes, where none were asked for
      # @raise [EOFError]
      def readpartial(length, buffer = nil) = read(length, buffer) || end_reached

      # @return [String, nil] nil, unless it is asked for no bytes
      def gets(*arguments, **) = ("".b if arguments.last == 0)

      def rewind = 0

      def pos = 0

      def size = 0

      def eof? = true
    end

    # @api private
    NO_INPUT = EmptyInput.new.freeze
  end
end
