# frozen_string_literal: true

require_relative "sample"

module NeverBlock
  class Cache
    class Traffic
      # When which client has asked for which URL, as hashes: neither is stored.
      #
      #   clients = Clients.new(limit: 500_000)
      #   pair = clients.id("/report", "192.0.2.7", nil)
      #   clients.see(pair, 1000.0, nil, 3600)       # => nil
      #   clients.see(pair, 1060.0, 1000.0, 3600)    # => 1: it has asked before
      #
      # If there are too many pairs, first those go that are over, then half of all: see {Traffic}.
      # @api private
      class Clients
        # The part of all pairs that is free after there were too many.
        FREE = 8
        MOST_HALVINGS = 60
        private_constant :FREE, :MOST_HALVINGS

        # @param limit [Integer]
        def initialize(limit:)
          @limit = limit
          @times = {}
          @sample = Sample.new
          @salt = Random.urandom(16)
        end

        # @param url [String]
        # @param client [String]
        # @param variant [Object, nil]
        # @return [Integer] a hash with a key of this process
        def id(url, client, variant) = [@salt, url, client, variant].hash

        # A client asks for a response that all share.
        # @param pair [Integer]
        # @param at [Float]
        # @param since [Float, nil] when the response was stored; nil: it is asked for the first time
        # @param window [Numeric] the longest lifetime, in seconds
        # @return [Integer, nil] number of pairs that this one stands for, if the client has asked since then
        def see(pair, at, since, window)
          before = @times[pair]
          put(pair, at, window)
          @sample.weight if before && since && before >= since && @sample.include?(pair)
        end

        # A client asks for a response that it alone has.
        # @param pair [Integer]
        # @param at [Float]
        # @param lifetime [Numeric] seconds that it may be used
        # @param window [Numeric] the longest lifetime, in seconds
        # @return [Integer, nil] number of pairs that this one stands for, if the client still has it
        def keep(pair, at, lifetime, window)
          before = @times[pair]
          return @sample.weight if before && (at - before).abs < lifetime
          put(pair, at, window)
          nil
        end

        # @return [Integer]
        def size = @times.size

        # @return [Boolean]
        def sampled? = @sample.partial?

        private

        def put(pair, at, window)
          return unless @sample.include?(pair)
          make_room(at, window) if @times.size >= @limit && !@times.key?(pair)
          @times[pair] = at if @sample.include?(pair)
        end

        def make_room(at, window)
          enough = @limit - (@limit / FREE).clamp(1, @limit)
          @times.delete_if { |_, time| at - time >= window }
          MOST_HALVINGS.times do
            break if @times.size <= enough
            @times.delete_if { |pair, _| !@sample.stays?(pair) }
            @sample.halve
          end
        end
      end
    end
  end
end
