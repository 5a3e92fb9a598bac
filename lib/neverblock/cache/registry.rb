# frozen_string_literal: true

require_relative "../runtime/unique_names"

module NeverBlock
  class Cache
    # All caches of this process, for purges by code that has none of them at hand, and for {NeverBlock.stats}. They are
    # held weakly: a cache that nothing else needs is collected.
    #
    #   registry.join(cache, "pages") { |name| … }                        # "pages", or "pages (2)" if that is taken
    #   registry.add(object)                                              # something else that can be purged
    #   registry.sum(["news"]) { |object, tag| object.purge_tag(tag) }    # => 3
    #   NeverBlock.stats[:caches]                                         # => {"pages" => {entries: 12, …}}
    #
    # Threads, and fibers of any loop, may use it. A forked child has its parent's caches.
    # @api private
    class Registry
      def initialize
        @lock = Thread::Mutex.new
        @objects = ObjectSpace::WeakMap.new
        @names = UniqueNames.new { false }
      end

      # @param object [#purge_tag]
      # @return [void]
      # @raise [ArgumentError]
      def add(object)
        unless object.respond_to?(:purge_tag)
          raise ArgumentError, "Cache.register: #{object.inspect[0, 100]} has no method purge_tag(tag). " \
            "Register a NeverBlock::Cache, or an object with such a method"
        end
        @lock.synchronize { @objects[object] = true }
      end

      # @param cache [Cache]
      # @param wanted [String]
      # @yieldparam name [String] that it has from now on, which no other cache may be given in between
      # @return [void]
      def join(cache, wanted)
        Stats.register(:caches, self)
        @lock.synchronize do
          @objects[cache] = true
          yield @names.take(wanted, cache)
        end
      end

      # @return [Hash{String=>Hash}] of each cache, by its name
      def stats = @lock.synchronize { caches }.sort_by(&:name).to_h { |cache| [cache.name, cache.stats] }

      # Calls the block for each object with each item. Errors do not keep others from being asked. A {Cache} comes
      # last: it must not fetch again from a store further inside that still has the old response.
      # @param items [Array<String>]
      # @yieldparam object [#purge_tag]
      # @yieldparam item [String]
      # @yieldreturn [Integer, nil]
      # @return [Integer] the sum
      # @raise [StandardError] the first one, after all were asked
      def sum(items)
        error = nil
        counts = inner_first.product(items).map do |object, item|
          yield object, item
        rescue => one
          error ||= one
          nil
        end
        error ? raise(error) : counts.grep(Integer).sum
      end

      private

      def caches = @objects.keys.grep(Cache)

      def inner_first = @lock.synchronize { @objects.keys }.partition { |object| !(Cache === object) }.flatten(1)
    end
  end
end
