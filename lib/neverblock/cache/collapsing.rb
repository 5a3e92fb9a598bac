# frozen_string_literal: true

module NeverBlock
  class Cache
    # `collapse: true` for `fetch` of a store of ActiveSupport: concurrent misses of a key in this process compute the
    # value once. The Railtie extends Rails.cache.
    #
    #   Rails.cache.extend(NeverBlock::Cache::Collapsing)
    #   Rails.cache.fetch("report", expires_in: 1.hour, collapse: true) { Report.compute }
    #
    # It works between fibers, and between threads outside of loops. Other options of `fetch` mean what they mean in
    # Rails. `fetch` without `collapse: true`, and all other methods, are Rails' own.
    #
    # * The first caller computes, in its own fiber or thread: the block sees the caller's Current attributes, locale,
    #   time zone, and role and shard of the database, inside of the caller's executor. In a task of its own it would
    #   see none of that. So the {Flight} is not an owned one. If the first caller leaves, another one takes over, with
    #   its own block and state; {Flight} also says what becomes of errors.
    # * As with any cached value, the key has to name what the value depends on, such as the locale.
    # * The first caller gets the block's value, and each of the others an object of its own: what the store's
    #   serializer makes of the value, as with a hit. So no caller changes another one's value. Only a store with
    #   `coder: nil` hands out one object, as it does with hits.
    # * `force: true` computes by itself: a computation that is under way may be older than what the caller knows.
    # * After `delete`, `delete_multi`, `delete_matched` or `clear` in this process, a miss doesn't wait for a
    #   computation that began before.
    # * With `race_condition_ttl` the others get the expired value meanwhile, as in Rails.
    module Collapsing
      def self.extended(store)
        return if store.instance_variable_defined?(:@neverblock_flight)
        store.instance_variable_set(:@neverblock_flight, Flight.new)
      end

      # @param name [Object] as in Rails
      # @param options [Hash, nil] as in Rails
      # @option options [Boolean] :collapse (false) whether to wait for another caller that computes the value
      # @return [Object]
      # @raise [Flight::CircularError] if the block of a key asks for that key again
      def fetch(name, options = nil, &block)
        return super unless options&.key?(:collapse)
        collapse = options[:collapse]
        options = options.except(:collapse)
        return super if !collapse || block.nil? || options[:force]
        miss = Object.new
        catch(miss) { return super(name, options) { throw miss } }
        collapsed(name, options) { |again| super(name, again, &block) }
      end

      # @return [Boolean] as in Rails
      def delete(name, options = nil) = beginning_afresh([name], options) { super }

      # @return [Integer] as in Rails
      def delete_multi(names, options = nil) = beginning_afresh(names, options) { super }

      # @return [Object] as in Rails
      def delete_matched(matcher, options = nil)
        super
      ensure
        @neverblock_flight.forget_if { true }
      end

      # @return [Object] as in Rails
      def clear(options = nil)
        super
      ensure
        @neverblock_flight.forget_if { true }
      end

      private

      # @yieldparam options [Hash] with which `fetch` computes the value, and writes it
      def collapsed(name, options)
        key = normalize_key(name, options)
        raw = options.slice(:raw)
        forget_noted_miss(key)
        options = options_for_computing(options)
        own = nil
        shared = @neverblock_flight.call([key, normalize_version(name, options).to_s, raw]) do
          own = [yield(options)]
          serialize_entry(new_entry(own.first), **raw, compress: false)
        end
        return own.first if own
        entry = deserialize_entry(shared, **raw)
        entry ? entry.value : yield(options)
      end

      # The computing caller reads once more: another one may have written between its own read and now. But where its
      # own read has found an expired value and prolonged it, for others to use it meanwhile, this caller would find it.
      def options_for_computing(options)
        (options[:race_condition_ttl] || self.options[:race_condition_ttl]) ? options.merge(force: true) : options
      end

      # During a request many stores note what they have read, also that there was nothing. That is no longer true.
      def forget_noted_miss(key)
        local_cache&.delete_entry(key) if respond_to?(:local_cache, true) # private before Rails 8.1
      end

      # Some versions of Rails put the keys in place of the names.
      def beginning_afresh(names, options)
        keys = names.map { |name| normalize_key(name, options || {}) }
        yield
      ensure
        @neverblock_flight.forget_if { |key,| keys.include?(key) } if keys
      end
    end
  end
end
