# frozen_string_literal: true

require_relative "readable"

module NeverBlock
  class Server
    # rack.input of a request without a body. It has no position, so all requests share one object.
    # @api private
    class EmptyInput
      include Readable

      # @return [String, nil] nil if a length above 0 was given, as at the end of any stream
      # @raise [ArgumentError] for a negative length
      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length&.negative?
        piece = deliver("".b, buffer)
        piece unless length&.positive?
      end

      # @return [String] an empty one, for a length of 0
      # @raise [EOFError]
      def readpartial(length, buffer = nil) = read(length, buffer) || end_reached

      # @return [String, nil] nil, unless the length is 0
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
