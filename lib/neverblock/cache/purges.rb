# frozen_string_literal: true

module NeverBlock
  class Cache
    # Which keys and tags were purged since a fetch began, for a store of one process: a response that was fetched
    # before a purge must not be stored after it.
    #
    #   before = purges.generation("https://example.org/")
    #   purges.tag("news")
    #   purges.since?(before, "https://example.org/", ["news"])    # => true
    #   purges.since?(before, "https://example.org/", ["sport"])   # => false, but for an accident
    #
    # Each purge has a number, and sets the counter of its key's or tag's bucket to that number. Several keys have one
    # counter, so a response may be refused without need; none is accepted that must not be. {MemoryStore} has the lock
    # around all methods.
    # @api private
    class Purges
      BUCKETS = 4_096
      private_constant :BUCKETS

      def initialize
        @last = @any_tag = @all = 0
        @keys = Array.new(BUCKETS, 0)
        @tags = Array.new(BUCKETS, 0)
      end

      # @param key [String]
      # @return [Integer] the number of the last purge that may concern the key; it stays the same without such a purge
      def generation(key) = [@keys[bucket(key)], @any_tag, @all].max

      # @param generation [Object] as of {#generation}; one of another store counts as too old
      # @param key [String]
      # @param tags [Array<String>]
      # @return [Boolean] whether a purge has come since
      def since?(generation, key, tags)
        return true unless Integer === generation
        @all > generation || @keys[bucket(key)] > generation || tags.any? { |tag| @tags[bucket(tag)] > generation }
      end

      # @param key [String] purged now
      # @return [void]
      def key(key) = @keys[bucket(key)] = number

      # @param tag [String] purged now
      # @return [void]
      def tag(tag) = @tags[bucket(tag)] = @any_tag = number

      # All is purged now.
      # @return [void]
      def all = @all = number

      private

      def number = @last += 1

      def bucket(text) = text.hash % BUCKETS
    end
  end
end
