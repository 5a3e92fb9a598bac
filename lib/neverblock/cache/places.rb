# frozen_string_literal: true

module NeverBlock
  class Cache
    # A {Semaphore} that is as new in a forked child: what the parent's requests hold would never be released there.
    #
    #   places = Places.new(100)
    #   places.acquire { app.call(env) }
    # @api private
    class Places
      # @param size [Integer]
      def initialize(size)
        @size = size
        @process = nil
        semaphore
      end

      # @yield holds a place
      # @return [Object] the block's value
      def acquire(&) = semaphore.acquire(&)

      # @return [Boolean] whether a place was taken
      def try_acquire = semaphore.try_acquire

      # @return [void]
      def release = semaphore.release

      # @return [Integer] places
      def taken = @size - semaphore.available

      private

      def semaphore
        return @semaphore if @process == Process.pid
        @semaphore = Semaphore.new(@size)
        @process = Process.pid
        @semaphore
      end
    end
  end
end
