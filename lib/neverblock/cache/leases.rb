# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"

module NeverBlock
  class Cache
    # Has one of several hosts fetch a response while the others wait for what it stores. It only spares fetches: one
    # without a lease harms nothing.
    #
    #   leases.call(fill, -> { stored? }) { |lease| … }    # the block fetches
    #
    # A host without the lease looks again and again, with short random pauses, until the response is stored, the lease
    # has ended or changed hands, or `wait` seconds are over. Then it fetches by itself, unless the response is stored.
    # A lease ends with its fetch, at once if the response is for one client alone, or after `seconds`, if its host has
    # died. A store that does not respond has no leases.
    # @api private
    class Leases
      include MonotonicClock

      # Seconds between two looks: the first one, and the longest one; each is longer than the one before.
      PAUSES = (0.01..0.15)
      GROWTH = 1.4
      private_constant :PAUSES, :GROWTH

      # The right to fetch.
      class Lease
        # @param store [RemoteStore]
        # @param what [String]
        # @param token [Object]
        def initialize(store, what, token)
          @store = store
          @what = what
          @token = token
        end

        # The others need not wait any longer.
        # @return [void]
        def release
          token, @token = @token, nil
          @store.release(@what, token) if token
        end
      end

      # @return [Integer] fetches that have waited for another host
      attr_reader :waited

      # @param store [RemoteStore, #lease]
      # @param seconds [Numeric]
      # @param wait [Numeric] seconds
      def initialize(store, seconds:, wait:)
        @store = store
        @seconds = seconds
        @wait = wait
        @waited = 0
      end

      # @param fill [Fill] what is fetched, by the URL's key and other texts; it is dissolved if another host has stored
      #   that
      # @param stored [#call] tells whether it is stored
      # @yieldparam lease [Lease, nil] nil: none was to be had
      # @yieldreturn [Object]
      # @return [void]
      def call(fill, stored)
        what = name(fill.key)
        mine, token = @store.lease(what, @seconds)
        lease = Lease.new(@store, what, token) if mine
        lease ||= wait(what, token, fill, stored) if token
        return fill.dissolve if lease == :stored || (lease && stored.call)
        begun = true
        yield lease
      ensure
        fill.dissolve unless begun || fill.decided? # its task was ended
        lease.release if Lease === lease
      end

      private

      # @return [Lease, Symbol, nil]
      def wait(what, holder, fill, stored)
        @waited += 1
        deadline = now + @wait
        pause = PAUSES.begin
        until now > deadline || fill.abandoned?
          sleep(pause * (0.5 + rand))
          pause = [pause * GROWTH, PAUSES.end].min
          mine, token = @store.lease(what, @seconds)
          return Lease.new(@store, what, token) if mine
          break unless token == holder # another one's fetch would not end earlier than one that begins now
        end
        :stored if stored.call
      end

      # The same on each host.
      def name(key)
        url, values = key
        [url, *values.flatten].map { |part| part.nil? ? "-" : "#{part.bytesize}:#{part}".b }.join(",")
      end
    end
  end
end
