# frozen_string_literal: true

require_relative "../runtime/value_type"
require_relative "purges"
require_relative "two_levels/copies"

module NeverBlock
  class Cache
    # A store in memory over one that several hosts share. What was read or written is used from memory for a moment. So
    # a purge by another process is seen after that moment at the latest; one by this process at once.
    #
    #   store = TwoLevels.new(bytes: 64 << 20, over: remote, fresh_for: 1)
    #   store.read(key)    # asks the remote store; a second time within a second, it doesn't
    #
    # While the remote store does not respond, what this process fetches is kept in memory for that moment.
    # @api private
    class TwoLevels
      SECONDS = ValueType.seconds
      SIZE = ValueType.bytes(least: 1)
      # A generation that no store takes.
      UNFIT = Object.new.freeze
      private_constant :SECONDS, :SIZE, :UNFIT

      # @param bytes [Integer, String] of the copies in memory
      # @param over [RemoteStore, #read] the other store
      # @param fresh_for [Numeric] seconds that a copy is used
      # @raise [ConfigurationError]
      def initialize(bytes:, over:, fresh_for: 1)
        @remote = over
        @copies = Copies.new(bytes: SIZE.setting(bytes) { "memory:" },
          fresh_for: SECONDS.setting(fresh_for) { "fresh_for:" })
        @purges = Purges.new
        @lock = Thread::Mutex.new
        @changes = 0 # a copy of what was read before the last one may be outdated
        @closed = false
      end

      # @return [Leases, nil]
      def leases = (@remote.leases if @remote.respond_to?(:leases))

      # @return [Integer] bytes of the largest entry that is stored
      def max_entry = @remote.max_entry

      # @param key [String]
      # @yieldparam variant [String] start of an entry's {Entry#variant}
      # @yieldreturn [Boolean] whether it is wanted; others are left out
      # @return [Array<Entry>] the newest first
      def read(key, &wanted)
        copy, before = @lock.synchronize { [@copies[key], @changes] }
        return copy.entries if copy&.whole_for?(wanted)
        found = @remote.read(key, &wanted)
        return copy.entries if copy && found.empty? && lonely?
        @lock.synchronize { @copies.put(key, found, wanted:) if !@closed && before == @changes && !found.empty? }
        found
      end

      # @param key [String]
      # @param entry [Entry]
      # @return [void]
      def touch(key, entry) = (@remote.touch(key, entry) if @remote.respond_to?(:touch))

      # @param key [String] whose copy is not used any more
      # @return [void]
      def look_again(key) = change { @copies.delete(key) }

      # @param key [String]
      # @return [Object] to be given to {#write}; taken before a fetch begins. It stays equal until a purge that may
      #   concern the key
      def generation(key)
        before = @lock.synchronize { @purges.generation(key) }
        [@remote.generation(key), before].freeze
      end

      # Replaces the entry with equal `vary`.
      # @param key [String]
      # @param entry [Entry]
      # @param generation [Object, nil] as of {#generation}; nil: that of now
      # @return [Boolean] false: it is too large, or was purged since
      def write(key, entry, generation: nil)
        pair = generation.nil? || (Array === generation && generation.size == 2)
        remote, before = pair ? generation : UNFIT
        return copy(key, entry, before) || true if @remote.write(key, entry, generation: remote)
        return false unless pair && lonely? && @remote.fit?(key, entry)
        copy(key, entry, before)
      end

      # @param key [String]
      # @return [Integer] number of entries removed
      def purge(key)
        @remote.purge(key)
      ensure
        change do
          @purges.key(key)
          @copies.delete(key)
        end
      end

      # @param tag [String]
      # @return [Integer] number of entries removed; 0 where they are not counted
      def purge_tag(tag)
        @remote.purge_tag(tag)
      ensure
        change do
          @purges.tag(tag)
          @copies.clear # they would not last for long
        end
      end

      # @return [Integer] number of entries removed; 0 where they are not counted
      def clear
        @remote.clear
      ensure
        change do
          @purges.all
          @copies.clear
        end
      end

      # @return [Hash{Symbol=>Integer, nil}] of the other store
      def stats = @remote.stats

      # Nothing is read and stored from now on.
      # @return [void]
      def close
        @remote.close
        change do
          @closed = true
          @copies.clear
        end
        nil
      end

      private

      # @return [Boolean] whether the remote store does not respond
      def lonely? = @remote.respond_to?(:resting?) && @remote.resting?

      # The other store has what this process has written; what it has besides is known only if it was read.
      # @return [Boolean] false: it was purged since
      def copy(key, entry, before)
        change do
          next false if @closed || (before && @purges.since?(before, key, entry.tags))
          @copies.add(key, entry)
          true
        end
      end

      # A thread can be interrupted anywhere, as by Timeout: here only afterwards.
      def change
        Thread.handle_interrupt(Object => :never) do
          @lock.synchronize do
            @changes += 1
            yield
          end
        end
      end
    end
  end
end
