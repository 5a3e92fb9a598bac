# frozen_string_literal: true

module NeverBlock
  class Flight
    # The computations that are under way, by their keys, and the lock around them.
    # @api private
    class Table
      # @return [String] the message of a {CircularError}
      def self.circle(key)
        "computing #{key.inspect} would wait for itself: the key is asked for inside its own computation. " \
          "Pass the value down instead of asking for it again"
      end

      def initialize
        @mutex = Thread::Mutex.new
        @running = {}
      end

      # @return [Integer]
      def size = locked { @running.size }

      # @param key [Object]
      # @return [Boolean] whether there was one
      def forget(key) = locked { !@running.delete(key).nil? }

      # @yieldparam key [Object]
      # @return [void]
      def forget_if = locked { @running.delete_if { |key, _| yield key } }

      private

      # No cancellation comes in between. A computation that is never taken out would be waited for for ever.
      def locked(&block)
        task = Task.current
        task ? task.shield { @mutex.synchronize(&block) } : @mutex.synchronize(&block)
      end
    end
    private_constant :Table
  end
end
