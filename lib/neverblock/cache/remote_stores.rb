# frozen_string_literal: true

require_relative "remote_store"
require_relative "two_levels"

module NeverBlock
  class Cache
    # Makes remote stores for {Stores}. Each loads its gem.
    #
    #   RemoteStores.open(:redis, "//cache.internal:6379/0", {namespace: "shop"})
    #   RemoteStores.open(:redis, RedisClient.config(host: "cache.internal"), {})
    #   RemoteStores.open(:postgres, NeverBlock::Postgres.new("postgresql:///shop"), {})
    # @api private
    module RemoteStores
      SECONDS = ValueType.seconds
      WAIT = ValueType.seconds(zero: true)
      COUNT = ValueType.count(least: 1)
      SIZE = ValueType.bytes(least: 1)
      # Options with types and defaults, of the client and of the store.
      CLIENT = {timeout: [SECONDS, 0.25], connections: [COUNT, 10], expires_in: [SECONDS, 7 * 86_400]}.freeze
      # Connections to PostgreSQL, which reads share.
      FEW = 4
      STORE = {lease: [WAIT, 10], lease_wait: [WAIT, 5]}.freeze
      TABLE = /\A[a-z_][a-z0-9_]{0,50}(\.[a-z_][a-z0-9_]{0,50})?\z/
      # What surrounds an entry in memcached's value, and how much more than `bytes` it may take: its header.
      HEADER = 1 << 20
      LOG = ->(line) { warn("NeverBlock::Cache: #{line}") }
      private_constant :SECONDS, :WAIT, :COUNT, :SIZE, :CLIENT, :FEW, :STORE, :TABLE, :HEADER, :LOG

      class << self
        # @param kind [Symbol] :redis, :rediss, :unix, :memcached, :postgres, :postgresql
        # @param place [String, Object] what comes after the colon of a URL; or a client
        # @param options [Hash{Symbol=>Object}]
        # @return [RemoteStore]
        # @raise [ConfigurationError]
        def open(kind, place, options)
          few = %i[postgres postgresql].include?(kind) ? {connections: FEW} : {}
          client = checked(CLIENT, {**few, **options.slice(*CLIENT.keys, :table, :bytes)})
          store = {log: LOG, **checked(STORE, options.except(*client.keys))}
          case kind
          when :memcached then memcached(place, client, store)
          when :postgres, :postgresql then postgres(kind, place, client, store)
          else redis(kind, place, client, store)
          end
        end

        private

        def checked(types, options)
          types.each_with_object(options.dup) do |(name, (type, default)), found|
            found[name] = type.setting(found.fetch(name, default)) { "#{name}:" }
          end
        end

        def redis(kind, place, client, store)
          load("redis-client", "redis://")
          config = place
          unless place.respond_to?(:new_client)
            refuse("redis:", place, "a URL or a configuration of RedisClient") unless String === place
            config = ::RedisClient.config(url: "#{kind}:#{place}", timeout: client[:timeout], reconnect_attempts: 1)
          end
          timeout = client[:timeout]
          remote(RemoteStore::Redis.new(config, **client.slice(:connections, :timeout, :expires_in)),
            "Redis at #{host(config)}", timeout, store)
        rescue ArgumentError, URI::Error => error
          raise if ConfigurationError === error
          raise ConfigurationError, "store: #{kind}: #{error.message.gsub(%r{//[^/@]*@}, "//")}"
        end

        def host(config)
          config.respond_to?(:path) && config.path || [config.host, config.port].join(":")
        rescue
          "an address of its own" # Sentinels may not respond now
        end

        def memcached(place, client, store)
          load("dalli", "memcached://")
          unless ::Dalli::Client.method_defined?(:get_with_metadata)
            raise ConfigurationError, "store: memcached:// needs dalli 4.2 or newer: run `bundle update dalli`"
          end
          servers = (Array === place) ? place : place.to_s.delete_prefix("//").split(",").map(&:strip)
          if servers.empty? || !servers.all? { |one| String === one && !one.empty? }
            refuse("memcached:", servers, "a list of servers as in \"memcached://cache-1:11211,cache-2:11211\"")
          end
          most = SIZE.setting(store.fetch(:max_entry, 1_000_000)) { "max_entry:" } + HEADER
          options = client.slice(:connections, :timeout, :expires_in)
          remote(RemoteStore::Memcached.new(servers, max_value: most, **options),
            "memcached at #{servers.join(", ")}", client[:timeout], store)
        end

        # The cache is beneath PostgreSQL's adapters, and knows this class of theirs by its name only.
        def postgres(kind, place, client, store)
          table = client.fetch(:table, "neverblock_cache")
          fit = TABLE.match?(table.to_s)
          refuse("table:", table, "a name as in \"neverblock_cache\" or \"caches.pages\"") unless fit
          own = String === place
          known = own || (place.respond_to?(:exec) && place.respond_to?(:transaction))
          refuse("postgres:", place, "a URL or a NeverBlock::Postgres") unless known
          load("pg", "postgresql://") if own
          options = {table:, bytes: client.fetch(:bytes, 1 << 30), expires_in: client[:expires_in]}
          database = {database: place}
          database = {url: "#{kind}:#{place}", connections: client[:connections], log: store[:log]} if own
          remote(RemoteStore.const_get(:Postgres).new(**database, **options), "PostgreSQL", client[:timeout], store)
        end

        def remote(client, place, timeout, store) = RemoteStore.new(client, place:, timeout:, **store)

        def load(name, kind)
          require name
        rescue LoadError => error
          raise unless error.path == name
          raise ConfigurationError, "store: #{kind} needs the gem #{name}, and there is none: run `bundle add #{name}`"
        end

        def refuse(name, value, words)
          raise ConfigurationError, "store: #{name} #{value.inspect[0, 100]} is not #{words}"
        end
      end
    end
  end
end
