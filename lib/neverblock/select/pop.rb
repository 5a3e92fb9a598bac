# frozen_string_literal: true

module NeverBlock
  class Select
    # An item of a queue; nil once it is closed and empty.
    # @api private
    class Pop < QueueCase
      def ready? = !source.empty? || source.closed?

      def act(non_block = false) = source.pop(non_block)

      def take
        return [nil] if source.closed? && source.empty?
        super
      end
    end
    private_constant :Pop
  end
end
