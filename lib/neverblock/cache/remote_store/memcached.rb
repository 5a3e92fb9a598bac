# frozen_string_literal: true

require "json"
require_relative "key_value"

module NeverBlock
  class Cache
    class RemoteStore
      # The client of memcached, by the gem dalli and the meta protocol.
      #
      #   Memcached.new(["cache-1:11211", "cache-2:11211"], connections: 10, timeout: 0.25, expires_in: 86_400)
      #
      # With several servers, each name is on one of them. A server that is down is not replaced by the others: they may
      # have older marks, with which purged entries would be read again.
      # @api private
      class Memcached < KeyValue
        # Tries to write a list that others are writing.
        ATTEMPTS = 8
        OPTIONS = {
          protocol: :meta, raw: true, compress: false, failover: false, threadsafe: false, socket_max_failures: 2,
          socket_failure_delay: nil, down_retry_delay: 1
        }.freeze
        private_constant :ATTEMPTS, :OPTIONS

        # @param servers [Array<String>] "host:port", or the paths of unix sockets
        # @param connections [Integer] to each of them
        # @param timeout [Numeric] seconds
        # @param expires_in [Numeric] seconds after which an entry leaves, fresh or not
        # @param max_value [Integer] bytes of the largest entry, with what surrounds it
        def initialize(servers, connections:, timeout:, expires_in:, max_value:)
          super()
          @several = servers.size > 1
          @expires_in = expires_in.ceil
          @pool = ConnectionPool.new(size: connections, timeout:, name: "cache in memcached") do
            ::Dalli::Client.new(servers.dup, **OPTIONS, socket_timeout: timeout, value_max_bytes: max_value)
          end
        end

        # @param names [Array<String>]
        # @return [Array<String, nil>]
        def values(names)
          return [] if names.empty?
          @pool.with do |dalli|
            found = dalli.get_multi(*names)
            dalli.alive! if found.empty? && !@several # it leaves out what it can't get
            found.values_at(*names)
          end
        end

        # @return [Boolean] whether it was stored: there was none
        def add(name, text, lasting: false) = done?(@pool.with { |dalli| dalli.add(name, text, ttl(lasting)) })

        # @return [Boolean]
        def set(name, text, lasting: false) = done?(@pool.with { |dalli| dalli.set(name, text, ttl(lasting)) })

        # @return [Boolean] whether there was one
        def delete(name) = done?(@pool.with { |dalli| dalli.delete(name) })

        # By meta get with N, which makes an empty value where there is none, and tells one caller so (W) and the others
        # that they are late (Z). The token is the CAS number of that value.
        # @param name [String]
        # @param seconds [Numeric]
        # @return [Array(Boolean, Integer)] whether it is had now, and a token of the one that has it
        def lease(name, seconds)
          found = @pool.with { |dalli| dalli.get_with_metadata(name, vivify_ttl: seconds.ceil) }
          [found[:won_recache] == true, found[:cas]]
        end

        # @param name [String]
        # @param token [Integer]
        # @return [void]
        def release(name, token) = @pool.with { |dalli| dalli.delete_cas(name, token) }

        # Of several servers one may be down: then the others go on, and Dalli leaves that one alone for a while.
        # @return [Boolean] whether the server can't be reached; otherwise it has refused one command
        def failure?(error)
          return false if @several
          ::Dalli::NetworkError === error || ::Dalli::RingError === error || SystemCallError === error ||
            IOError === error
        end

        # @return [void]
        def close = @pool.close

        private

        # By CAS, so that no variant of another process is lost.
        def list(shelf, variant, most)
          ATTEMPTS.times do
            text, number = @pool.with { |dalli| dalli.get_cas(shelf.index) }
            kept, left = listed(text, variant, most)
            next unless replace(shelf.index, JSON.generate(kept), text && number)
            left.each { |one| discard(shelf, one) }
            return true
          end
          false
        end

        def replace(name, text, number)
          return add(name, text) unless number
          done?(@pool.with { |dalli| dalli.set_cas(name, text, number, ttl(false)) })
        end

        def ttl(lasting) = lasting ? 0 : @expires_in

        # Dalli returns numbers for what is done.
        def done?(value) = value ? true : false
      end
    end
  end
end
