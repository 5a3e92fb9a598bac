# frozen_string_literal: true

module NeverBlock
  class Select
    # A point in time.
    # @api private
    class Timer < Case
      # @return [Float] seconds of the monotonic clock
      attr_reader :due

      def initialize(due, block)
        super(nil, block)
        @due = due
      end

      def take = ([nil] if Select.now >= due)
    end
    private_constant :Timer
  end
end
