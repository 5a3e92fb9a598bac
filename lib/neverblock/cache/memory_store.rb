# frozen_string_literal: true

require_relative "entry"
require_relative "limits"
require_relative "purges"

module NeverBlock
  class Cache
    # Keeps entries in this process's memory. The least recently used ones leave when there is no room.
    #
    #   store = MemoryStore.new(bytes: 256 << 20)
    #   before = store.generation(key)          # then the response is fetched
    #   store.write(key, entry, generation: before)
    #   store.read(key)                         # => [entry]
    #   store.purge(key)                        # => 1
    #
    # Fibers of any loop and threads may use it. The lock is never held during a wait. Inside, a method that is
    # interrupted leaves nothing half done.
    class MemoryStore
      # What is kept of a key: records and entries, the newest first.
      Shelf = Struct.new(:records, :entries)
      Record = Struct.new(:key, :entry, :used)
      NONE = [].freeze
      private_constant :Shelf, :Record, :NONE

      # @param bytes [Integer, String] of all entries, with their headers and objects
      # @param limits [Hash] see {Limits#initialize}
      # @raise [ConfigurationError]
      def initialize(bytes:, **limits)
        @limits = Limits.new(bytes:, **limits)
        @lock = Thread::Mutex.new
        @purges = Purges.new
        @evicted = @refused = @uses = 0
        @closed = false
        empty
      end

      # @return [Integer] bytes of the largest entry that is stored
      def max_entry = @limits.max_entry

      # @param key [String]
      # @return [Array<Entry>] the newest first
      def read(key)
        @lock.synchronize do
          shelf = @shelves[key] or next NONE
          @order.delete(key)
          @order[key] = true
          shelf.entries
        end
      end

      # One of a key's entries was used: others leave first, if there are too many.
      # @param key [String]
      # @param entry [Entry]
      # @return [void]
      def touch(key, entry)
        @lock.synchronize do
          record = @shelves[key]&.records&.find { |one| one.entry.equal?(entry) }
          record.used = @uses += 1 if record
        end
      end

      # @param key [String]
      # @return [Object] to be given to {#write}; taken before a fetch begins. It stays equal until a purge that may
      #   concern the key
      def generation(key) = @lock.synchronize { @purges.generation(key) }

      # Replaces the entry with equal `vary`.
      # @param key [String]
      # @param entry [Entry]
      # @param generation [Object, nil] as of {#generation}; nil: purges are not looked at
      # @return [Boolean] false: it is too large, or was purged since
      def write(key, entry, generation: nil)
        fits = @limits.fit?(key, entry)
        exclusively do
          next refuse if !fits || @closed || (generation && @purges.since?(generation, key, entry.tags))
          put(Record.new(-key, entry, @uses += 1))
          evict
          true
        end
      end

      # @param key [String]
      # @return [Integer] number of entries removed
      def purge(key)
        exclusively do
          @purges.key(key)
          remove(@shelves[key]&.records || NONE)
        end
      end

      # @param tag [String]
      # @return [Integer] number of entries removed
      def purge_tag(tag)
        exclusively do
          @purges.tag(tag)
          remove(@tags[tag]&.keys || NONE)
        end
      end

      # @return [Integer] number of entries removed
      def clear
        exclusively do
          @purges.all
          @count.tap { empty }
        end
      end

      # @return [Hash{Symbol=>Integer}]
      def stats
        @lock.synchronize do
          {entries: @count, keys: @shelves.size, bytes: @bytes, limit: @limits.bytes, evicted: @evicted,
           refused: @refused, errors: 0}
        end
      end

      # Without what is stored.
      # @return [String]
      def inspect
        @lock.synchronize do
          "#<#{self.class} #{@count} entries, #{@tags.size} tags, #{@bytes} of #{@limits.bytes} bytes>"
        end
      end

      # Empties the store, and stores nothing from now on.
      # @return [void]
      def close
        exclusively do
          @closed = true
          empty
        end
        nil
      end

      private

      # A thread can be interrupted anywhere, as by Timeout: here only afterwards.
      def exclusively(&block) = Thread.handle_interrupt(Object => :never) { @lock.synchronize(&block) }

      def empty
        @shelves = {} # by key
        @order = {} # keys, the least recently read or written first
        @tags = {} # by tag: records
        @bytes = @count = 0
      end

      def refuse
        @refused += 1
        false
      end

      # Each step alone is harmless, even in a process that was forked in between: first what is needed to remove it.
      def put(record)
        same, others = (@shelves[record.key]&.records || NONE).partition { |one| one.entry.vary == record.entry.vary }
        record.entry.tags.each { |tag| (@tags[tag] ||= {}.compare_by_identity)[record] = true }
        @bytes += cost(record)
        @count += 1
        @order.delete(record.key)
        @order[record.key] = true
        shelve(record.key, [record, *others])
        same.each { |one| forget(one) }
        @evicted += leave(others.min_by(&:used)) if others.size >= @limits.max_variants
      end

      def shelve(key, records)
        return @shelves.delete(key) && @order.delete(key) if records.empty?
        records = records.sort_by.with_index { |record, index| [-record.entry.responded_at, index] }.freeze
        @shelves[key] = Shelf.new(records, records.map(&:entry).freeze)
      end

      def remove(records) = records.dup.sum { |record| leave(record) }

      def leave(record)
        shelve(record.key, @shelves.fetch(record.key).records.reject { |one| one.equal?(record) })
        forget(record)
        1
      end

      # It is on no shelf any more.
      def forget(record)
        record.entry.tags.each do |tag|
          records = @tags[tag] or next
          records.delete(record)
          @tags.delete(tag) if records.empty?
        end
        @bytes -= cost(record)
        @count -= 1
      end

      def evict
        while @bytes > @limits.bytes && @count.positive?
          @order = @shelves.transform_values { true } if @order.empty? # `read` was interrupted
          key, = @order.first
          shelf = @shelves[key]
          shelf ? @evicted += leave(shelf.records.min_by(&:used)) : @order.delete(key)
        end
      end

      def cost(record) = record.entry.bytes + record.key.bytesize
    end
  end
end
