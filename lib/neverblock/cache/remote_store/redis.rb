# frozen_string_literal: true

module NeverBlock
  class Cache
    class RemoteStore
      # The client of Redis, Valkey and what speaks like them, by the gem redis-client. A key's entries are the fields
      # of one hash, so that one command reads all of them, and the server evicts all or none.
      #
      #   Redis.new(::RedisClient.config(url: "redis://cache.internal"), connections: 10, timeout: 0.25)
      #
      # It needs one server, or Sentinels; a Redis Cluster does not take commands for several keys.
      # @api private
      class Redis
        # The field that lists the others, the newest first, and what those are.
        ORDER = "order"
        DIGEST = /\A\h{32}\z/
        # KEYS: the hash. ARGV: variant, entry, most entries, milliseconds.
        PUT = <<~LUA
          if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
          local order = {ARGV[1]}
          for variant in string.gmatch(redis.call('HGET', KEYS[1], 'order') or '', '%x+') do
            if variant ~= ARGV[1] then order[#order + 1] = variant end
          end
          for place = #order, ARGV[3] + 1, -1 do
            redis.call('HDEL', KEYS[1], order[place])
            order[place] = nil
          end
          redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'order', table.concat(order, ','))
          redis.call('PEXPIRE', KEYS[1], ARGV[4])
          return 1
        LUA
        # ARGV: token, milliseconds. Returns the token of the one that has the lease.
        LEASE = <<~LUA
          if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return ARGV[1] end
          return redis.call('GET', KEYS[1])
        LUA
        RELEASE = <<~LUA
          if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
          return 0
        LUA
        # By script: its digest, by which the server knows it once it has seen it.
        DIGESTS = [PUT, LEASE, RELEASE].to_h { |script| [script, Digest::SHA1.hexdigest(script)] }.freeze
        private_constant :ORDER, :DIGEST, :PUT, :LEASE, :RELEASE, :DIGESTS

        # @param config [RedisClient::Config, #new_client]
        # @param connections [Integer]
        # @param timeout [Numeric] seconds to wait for one of them
        # @param expires_in [Numeric] seconds after which an entry leaves, fresh or not
        def initialize(config, connections:, timeout:, expires_in:)
          @expires = (expires_in * 1_000).ceil
          @pool = ConnectionPool.new(size: connections, timeout:, keep_after: [::RedisClient::CommandError],
            name: "cache in Redis") { config.new_client }
        end

        # @param shelf [Shelf]
        # @param names [Array<String>] of values
        # @yieldparam variant [String]
        # @yieldreturn [Boolean] whether the entry is wanted
        # @return [Array(Array<String, nil>, Hash{String=>String})] the values, and the entries by variant
        def look(shelf, names)
          values, fields = @pool.with do |redis|
            redis.pipelined do |pipeline|
              pipeline.call("MGET", *names)
              pipeline.call("HGETALL", shelf.entries)
            end
          end
          fields = fields.each_slice(2).to_h unless Hash === fields # RESP2
          [values, fields.select { |name, _| DIGEST.match?(name) && (!block_given? || yield(name)) }]
        rescue ::RedisClient::WrongTypeError # it is not ours
          command("DEL", shelf.entries)
          [values(names), {}]
        end

        # @param names [Array<String>]
        # @return [Array<String, nil>]
        def values(names) = command("MGET", *names)

        # @return [Boolean] whether it was stored: there was none
        def add(name, text, lasting: false) = command("SET", name, text, "NX", *expiry(lasting)) == "OK"

        # @return [Boolean]
        def set(name, text, lasting: false) = command("SET", name, text, *expiry(lasting)) == "OK"

        # @param shelf [Shelf]
        # @param variant [String]
        # @param text [String] the entry
        # @param most [Integer] entries of the shelf
        # @return [Boolean] whether it is stored
        def put(shelf, variant, text, most) = script(PUT, shelf.entries, variant, text, most, @expires) == 1

        # @param shelf [Shelf]
        # @return [Integer] number of entries removed
        def remove(shelf)
          fields, = @pool.with do |redis|
            redis.multi do |transaction|
              transaction.call("HLEN", shelf.entries)
              transaction.call("DEL", shelf.entries)
            end
          end
          [fields - 1, 0].max # one is the list
        end

        # @param shelf [Shelf]
        # @param variant [String]
        # @return [void]
        def discard(shelf, variant) = command("HDEL", shelf.entries, variant)

        # @param name [String]
        # @param seconds [Numeric]
        # @return [Array(Boolean, String)] whether it is had now, and a token of the one that has it
        def lease(name, seconds)
          own = SecureRandom.hex(16)
          token = script(LEASE, name, own, (seconds * 1_000).ceil)
          [token == own, token || own]
        end

        # @param name [String]
        # @param token [String]
        # @return [void]
        def release(name, token) = script(RELEASE, name, token)

        # @return [Boolean] whether the server can't be reached; otherwise it has refused one command
        def failure?(error) = ::RedisClient::ConnectionError === error || SystemCallError === error || IOError === error

        # @return [void]
        def close = @pool.close

        private

        def command(*arguments) = @pool.with { |redis| redis.call(*arguments) }

        def expiry(lasting) = lasting ? [] : ["PX", @expires]

        def script(text, key, *arguments)
          command("EVALSHA", DIGESTS.fetch(text), 1, key, *arguments)
        rescue ::RedisClient::NoScriptError
          command("EVAL", text, 1, key, *arguments)
        end
      end
    end
  end
end
