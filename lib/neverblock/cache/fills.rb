# frozen_string_literal: true

module NeverBlock
  class Cache
    # The fetches that are under way, by what they fetch.
    #
    #   fill, begun = fills.find(key) { Fill.new(…) }     # begun: the block was called
    #   fills.remove(fill)                               # newcomers begin another one
    #   fills.detach("https://example.org/")             # all fetches of a URL: it was purged
    #
    # In a forked child the parent's are forgotten.
    # @api private
    class Fills
      # @return [Semaphore] of fetches that go on without a request
      attr_reader :places

      # @param unattended [Integer] how many may go on without a request that waits for them
      def initialize(unattended: 100)
        @lock = Thread::Mutex.new
        @places = Semaphore.new(unattended)
        begin_afresh
      end

      # @param key [Array(String, Object)] the URL's key, and what else distinguishes the response
      # @yieldreturn [Fill] if none is under way that a request may join
      # @return [Array(Fill, Boolean)]
      def find(key)
        @lock.synchronize do
          fill = table[key]
          next [fill, false] if fill&.open?
          [table[key] = yield, true]
        end
      end

      # @param fill [Fill] that newcomers join, unless they have another one
      # @return [void]
      def put(fill) = @lock.synchronize { table[fill.key] = fill unless table[fill.key]&.open? }

      # @param key [Array(String, Object)]
      # @return [Boolean] whether it is being fetched
      def any?(key) = @lock.synchronize { table[key]&.open? } || false

      # @param fill [Fill]
      # @return [void]
      def remove(fill) = @lock.synchronize { table.delete(fill.key) if table[fill.key].equal?(fill) }

      # Requests that come from now on join none of these.
      # @param key [String, nil] of a URL; nil: all
      # @return [void]
      def detach(key) = @lock.synchronize { key ? table.delete_if { |(url, _), _| url == key } : table.clear }

      # @return [Integer]
      def size = @lock.synchronize { table.size }

      # @return [Integer] requests that have joined them
      def joined = @lock.synchronize { table.each_value.sum(&:joined) }

      private

      def table
        begin_afresh unless @process == Process.pid
        @fills
      end

      def begin_afresh
        @process = Process.pid
        @fills = {}
      end
    end
  end
end
