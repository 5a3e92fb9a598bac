# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"

module NeverBlock
  class Cache
    class TwoLevels
      # Entries by key, for a short time. The least recently used ones leave when there is no room. {TwoLevels} has the
      # lock around all methods.
      #
      #   copies.put(key, entries, wanted: nil)
      #   copies[key]        # => Copy; nil: there is none, or it is too old
      # @api private
      class Copies
        include MonotonicClock

        # Bytes of a copy beside its entries and its key.
        OVERHEAD = 200
        private_constant :OVERHEAD

        # What is known of a key. `whole`: that is all that the other store has; `wanted`: of which variants.
        Copy = Struct.new(:entries, :at, :whole, :wanted, :bytes) do
          # @param other [Proc, nil]
          # @return [Boolean] whether these are all variants that are wanted
          def whole_for?(other) = whole && wanted.equal?(other)
        end

        # @param bytes [Integer]
        # @param fresh_for [Numeric] seconds
        def initialize(bytes:, fresh_for:)
          @limit = bytes
          @fresh_for = fresh_for
          clear
        end

        # @param key [String]
        # @return [Copy, nil]
        def [](key)
          copy = @copies.delete(key) or return
          if now - copy.at > @fresh_for
            @bytes -= copy.bytes
            return
          end
          @copies[key] = copy
        end

        # @param key [String]
        # @param entries [Array<Entry>] all that the other store has
        # @param wanted [Proc, nil] of the variants that it was asked for
        # @return [void]
        def put(key, entries, wanted:) = keep(key, Copy.new(entries, now, true, wanted))

        # Replaces the entry with equal `vary`. The copy does not last longer for it.
        # @param key [String]
        # @param entry [Entry]
        # @return [void]
        def add(key, entry)
          copy = self[key]
          others = copy ? copy.entries.reject { |one| one.vary == entry.vary } : []
          entries = [entry, *others].sort_by.with_index { |one, index| [-one.responded_at, index] }.freeze
          keep(key, Copy.new(entries, copy ? copy.at : now, copy ? copy.whole : false, copy&.wanted))
        end

        # @param key [String]
        # @return [void]
        def delete(key)
          copy = @copies.delete(key) or return
          @bytes -= copy.bytes
        end

        # @return [void]
        def clear
          @copies = {} # the least recently used first
          @bytes = 0
        end

        private

        def keep(key, copy)
          delete(key)
          copy.bytes = OVERHEAD + key.bytesize + copy.entries.sum(&:bytes)
          return if copy.bytes > @limit
          @copies[-key] = copy
          @bytes += copy.bytes
          delete(@copies.first.first) while @bytes > @limit
        end
      end
    end
  end
end
