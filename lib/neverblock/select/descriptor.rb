# frozen_string_literal: true

module NeverBlock
  class Select
    # A descriptor that is readable or writable.
    # @api private
    class Descriptor < Case
      def initialize(source, block, direction)
        super(source, block)
        @lists = (direction == :readable) ? [[source], nil] : [nil, [source]]
        @reads = direction == :readable
      end

      def take
        [source] if decrypted? || IO.select(*@lists, nil, 0)
      end

      def wait
        IO.select(*@lists)
        nil
      end

      private

      # Data that TLS has decrypted already is not in the descriptor.
      def decrypted? = @reads && source.respond_to?(:pending) && source.pending.positive?
    end
    private_constant :Descriptor
  end
end
