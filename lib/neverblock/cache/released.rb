# frozen_string_literal: true

module NeverBlock
  class Cache
    # Limits the calls of the app by requests that were let go, for each URL: one URL that hangs holds up no other.
    #
    #   released = Released.new(100)
    #   released.acquire("https://example.org/") { app.call(env) }
    # @api private
    class Released
      # Places, and the number of requests that have one or wait for one.
      Used = Struct.new(:places, :requests)
      private_constant :Used

      # @param size [Integer] for each URL
      def initialize(size)
        @size = size
        @lock = Thread::Mutex.new
        @used = {}
      end

      # @param key [String] of the URL
      # @yield holds a place
      # @return [Object] the block's value
      def acquire(key, &)
        used = @lock.synchronize { (@used[key] ||= Used.new(Semaphore.new(@size), 0)).tap { |one| one.requests += 1 } }
        used.places.acquire(&)
      ensure
        @lock.synchronize { @used.delete(key) if (used.requests -= 1) <= 0 } if used
      end

      # @return [Integer] URLs for which requests call the app, or wait to
      def size = @used.size
    end
  end
end
