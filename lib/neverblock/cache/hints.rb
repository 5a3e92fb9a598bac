# frozen_string_literal: true

module NeverBlock
  class Cache
    # What the cache remembers of keys whose responses it has seen: whether they can't be shared for now, and which
    # request headers they depend on.
    #
    #   hints = Hints.new(limit: 10_000)
    #   hints.mark("https://example.org/", 120, :set_cookie)    # not shared for two minutes
    #   hints.uncollapsible?("https://example.org/")            # => true
    #   hints.reason("https://example.org/")                    # => :set_cookie
    #   hints.clear("https://example.org/")
    #
    # The keys that were marked longest ago are forgotten beyond the limit. Nothing is remembered of very long keys,
    # which would need much memory.
    # @api private
    class Hints
      LONGEST_KEY = 2 << 10 # bytes
      # Until when, in seconds, and why.
      Mark = Struct.new(:until, :reason)
      private_constant :LONGEST_KEY, :Mark

      # @param limit [Integer] number of keys
      def initialize(limit:)
        @limit = limit
        @lock = Thread::Mutex.new
        @marks = {}
        @headers = {}
      end

      # @param key [String]
      # @param seconds [Numeric]
      # @param reason [Symbol, nil]
      # @return [void]
      def mark(key, seconds, reason = nil) = remember(@marks, key, Mark.new(now + seconds, reason))

      # @param key [String]
      # @return [Boolean] whether its responses are for one request each
      def uncollapsible?(key)
        return false if @marks.empty?
        mark = @marks[key]
        !mark.nil? && (mark.until > now || !@lock.synchronize { @marks.delete(key) })
      end

      # @param key [String]
      # @return [Symbol, nil] why its last response could not be shared
      def reason(key) = @marks[key]&.reason

      # A response of this key could be shared.
      # @param key [String]
      # @return [void]
      def clear(key) = (@lock.synchronize { @marks.delete(key) } if @marks.key?(key))

      # @param key [String]
      # @param names [Array<String>] request headers, in lower case, on which its responses depend
      # @return [void]
      def depends(key, names) = (remember(@headers, key, names.dup.freeze) unless headers(key) == names)

      # @param key [String]
      # @return [Array<String>]
      def headers(key) = @headers[key] || [].freeze

      # @return [Integer] number of keys that are not shared at present, or were not
      def marked = @marks.size

      private

      def remember(table, key, value)
        return if key.bytesize > LONGEST_KEY
        @lock.synchronize do
          table.delete(key)
          table[key] = value
          table.shift if table.size > @limit
        end
      end

      def now = Clock.now
    end
  end
end
