# frozen_string_literal: true

module NeverBlock
  class Cache
    # Limits the calls of the app by requests that were let go, for each URL: one URL that hangs holds up no other.
    #
    #   released = Released.new(100)
    #   released.acquire("https://example.org/") { app.call(env) }
    #
    # In a forked child the parent's requests are forgotten.
    # @api private
    class Released
      # Places, and the number of requests that have one or wait for one.
      Used = Struct.new(:places, :requests)
      private_constant :Used

      # @param size [Integer] for each URL
      def initialize(size)
        @size = size
        @lock = Thread::Mutex.new
        begin_afresh
      end

      # @param key [String] of the URL
      # @yield holds a place
      # @return [Object] the block's value
      def acquire(key, &)
        used = @lock.synchronize { (table[key] ||= Used.new(Semaphore.new(@size), 0)).tap { |one| one.requests += 1 } }
        used.places.acquire(&)
      ensure
        leave(key, used) if used
      end

      # @return [Integer] URLs for which requests call the app, or wait to
      def size = @lock.synchronize { table.size }

      private

      # A child that the block has forked has another table.
      def leave(key, used)
        @lock.synchronize { table.delete(key) if (used.requests -= 1) <= 0 && table[key].equal?(used) }
      end

      def table
        begin_afresh unless @process == Process.pid
        @used
      end

      def begin_afresh
        @process = Process.pid
        @used = {}
      end
    end
  end
end
