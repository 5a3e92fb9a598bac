# frozen_string_literal: true

module NeverBlock
  class Server
    # rack.input of a request without a body: one object for all, since it has no position to lose.
    # @api private
    class EmptyInput
      # @return [String, nil] nil where bytes were asked for, as at any stream's end
      def read(length = nil, buffer = nil)
        buffer&.clear
        (length && length > 0) ? nil : buffer || +""
      end

      # @return [nil]
      def gets(*) = nil

      def each = block_given? ? self : [].each

      def rewind = 0

      def close = nil

      def closed? = false

      def size = 0

      def eof? = true

      def external_encoding = Encoding::BINARY

      def binmode = self

      def set_encoding(*) = self
    end

    # @api private
    NO_INPUT = EmptyInput.new.freeze
  end
end
