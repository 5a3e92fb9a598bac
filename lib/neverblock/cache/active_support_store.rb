# frozen_string_literal: true

require_relative "remote_store"
require_relative "remote_store/key_value"

module NeverBlock
  class Cache
    # Keeps entries in any store of Rails: Redis, memcached, Solid Cache, for all hosts that share it.
    #
    #   store = ActiveSupportStore.new(Rails.cache, namespace: "shop-release-7")
    #
    # {RemoteStore} says what is exact and what is not. Besides:
    #
    # - Two processes that store variants of a key at the same time may lose one.
    # - A store that drops writes silently keeps purged entries.
    # - An entry is one value: `max_entry` must be what the store takes (memcached: 1 MiB).
    # - There are no leases: each host fetches.
    #
    # A store that hangs costs a request the timeout of one operation, and further requests nothing for some seconds
    # ({Patience}). The timeout is the store's own: for Redis it is half a second with `timeout: 0.5,
    # reconnect_attempts: 0`.
    class ActiveSupportStore < RemoteStore
      # The store beneath, as a client.
      # @api private
      class Client < RemoteStore::KeyValue
        ATTEMPTS = 3
        private_constant :ATTEMPTS

        # @param cache [ActiveSupport::Cache::Store]
        # @param expires_in [Numeric] seconds
        def initialize(cache, expires_in:)
          @cache = cache
          @expires_in = expires_in
        end

        # @param names [Array<String>]
        # @return [Array<Object, nil>]
        def values(names) = names.empty? ? [] : fresh { @cache.read_multi(*names, raw: true) }.values_at(*names)

        # @return [Boolean] whether it was stored: there was none
        def add(name, text, lasting: false) = write(name, text, lasting, unless_exist: true)

        # Rails' store in files fails if another process removes a folder just then.
        # @return [Boolean]
        def set(name, text, lasting: false)
          attempts ||= 0
          write(name, text, lasting)
        rescue SystemCallError
          raise if (attempts += 1) == ATTEMPTS
          retry
        end

        # @return [Boolean] whether there was one; false if that fails: it is only tidied up
        def delete(name)
          fresh { @cache.delete(name) }
        rescue
          false
        end

        # Rails' stores tell of failures in no common way: they count by their time alone.
        # @return [Boolean]
        def failure?(_error) = false

        # It is not ours.
        # @return [void]
        def close = nil

        private

        def write(name, text, lasting, **options)
          expires_in = @expires_in unless lasting
          fresh { @cache.write(name, text, raw: true, compress: false, expires_in:, **options) }
        end

        # Rails keeps what a request has read, and would show it after a purge by another process.
        def fresh(&) = @cache.respond_to?(:with_local_cache) ? @cache.with_local_cache(&) : yield
      end
      private_constant :Client

      # @param cache [ActiveSupport::Cache::Store]
      # @param namespace [String] of an app and its release
      # @param max_entry [Integer, String] bytes of one entry
      # @param expires_in [Numeric] seconds after which the store may drop an entry, fresh or not
      # @param log [#call, nil] gets a line when something goes wrong for the first time
      # @param patience [Patience]
      # @param limits [Hash] see {Limits#initialize}
      # @raise [ConfigurationError]
      def initialize(cache, namespace: "default", max_entry: 1_000_000, expires_in: 7 * 86_400, log: nil,
        patience: Patience.new, **limits)
        client = Client.new(cache, expires_in:)
        super(client, place: "the cache in #{cache.class}", namespace:, max_entry:, log:, patience:, **limits)
      end
    end
  end
end
