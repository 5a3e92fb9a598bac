# frozen_string_literal: true

require "active_support"
require "active_support/cache"
require_relative "../cache"
require_relative "collapsing"

module NeverBlock
  class Cache
    # Our stores for Rails.cache: memory with a limit in bytes, or a folder that the workers of a host share and that
    # outlives killed writers and damaged files.
    #
    #   config.cache_store = NeverBlock::Cache::Store.new("file:/var/cache/app?bytes=1g", namespace: "v7")
    #   Rails.cache.fetch("report", expires_in: 1.hour, collapse: true) { Report.compute }
    #
    # It has the methods of ActiveSupport::Cache::Store, and `fetch` collapses: {Collapsing}. `delete_matched` is not
    # supported. `increment` and `decrement` are atomic within a process.
    class Store < ActiveSupport::Cache::Store
      prepend Collapsing

      KEY = "rails:"
      STATUS = 200
      HEADERS = {}.freeze
      private_constant :KEY, :STATUS, :HEADERS

      # @return [Boolean] as in Rails
      def self.supports_cache_versioning? = true

      # @param store [String, Hash, Object] "memory:64m", "file:/path?bytes=1g", as of {Cache#initialize}
      # @param options [Hash] as of ActiveSupport::Cache::Store
      # @raise [ConfigurationError]
      def initialize(store = "memory:64m", **options)
        super(options)
        @store = Stores.open(store)
        @lock = Thread::Mutex.new
        Collapsing.extended(self)
      end

      # Removes all entries; those of another namespace too.
      # @return [void]
      def clear(_options = nil)
        @store.clear
        nil
      end

      # @return [Integer] as in Rails
      def increment(name, amount = 1, **options) = change(:increment, name, amount, options)

      # @return [Integer] as in Rails
      def decrement(name, amount = 1, **options) = change(:decrement, name, -amount, options)

      # @return [Hash{Symbol=>Integer}] entries, bytes and so on
      def stats = @store.stats

      # @return [String]
      def inspect = "#<#{self.class.name} #{stats} options=#{@options.inspect}>"

      private

      def read_entry(key, **options) = deserialize_entry(read_serialized_entry(key, **options), **options)

      def read_serialized_entry(key, **)
        entry = @store.read(KEY + key).first or return
        text = String.new(capacity: entry.body_size, encoding: Encoding::BINARY)
        entry.each { |chunk| text << chunk }
        text
      end

      def write_entry(key, entry, unless_exist: false, **options)
        return write_serialized_entry(key, serialize_entry(entry, **options)) unless unless_exist
        @lock.synchronize do
          present = read_entry(key, **options)
          next false if present && !present.expired?
          write_serialized_entry(key, serialize_entry(entry, **options))
        end
      end

      def write_serialized_entry(key, payload, **)
        at = Clock.wall
        chunks = [payload.b.freeze]
        entry = Entry.new(status: STATUS, headers: HEADERS, requested_at: at, responded_at: at, chunks:)
        @store.write(KEY + key, entry)
      end

      def delete_entry(key, **) = @store.purge(KEY + key) > 0

      # Keeps the time at which the value expires.
      def change(what, name, amount, options)
        options = merged_options(options)
        key = normalize_key(name, options)
        instrument(what, key, amount:) do
          @lock.synchronize do
            entry = read_entry(key, **options)
            present = entry && !entry.expired? && !entry.mismatched?(normalize_version(name, options))
            value = (present ? entry.value.to_i : 0) + amount
            write_serialized_entry(key, serialize_entry(changed(value, (entry if present), options), **options))
            value
          end
        end
      end

      def changed(value, entry, options)
        kept = entry ? {expires_at: entry.expires_at, version: entry.version} : options.slice(:expires_in, :version)
        ActiveSupport::Cache::Entry.new(value, **kept)
      end
    end
  end
end
