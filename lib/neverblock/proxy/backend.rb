# frozen_string_literal: true

module NeverBlock
  class Proxy
    # One of several upstreams: its connections, its requests in flight, and whether it is in use. {Backends} alone
    # changes its state, under its lock.
    # @api private
    class Backend
      include MonotonicClock

      # Seconds between two log lines of one kind.
      PAUSE = 1
      private_constant :PAUSE

      # @return [ConnectionPool]
      attr_reader :pool
      # @return [Integer] requests that it has
      attr_accessor :in_flight
      # @return [Integer] tunnels that are open, or asked for
      attr_accessor :tunnels
      # @return [Integer] failures since its last response
      attr_accessor :failures
      # @return [Integer] times that it was taken out since its last response
      attr_accessor :times_out
      # @return [Float, nil] until when it is out of use; afterwards one request tries it
      attr_accessor :out_until
      # @return [Boolean] whether that request is under way
      attr_accessor :trying
      # @return [Boolean] whether its checks have failed
      attr_accessor :down
      # @return [Integer] checks in a row that contradict {#down}
      attr_accessor :checks
      # @return [Boolean] whether the log's last line on it says that it is left alone
      attr_reader :told
      # @return [Hash{Symbol=>Integer}] numbers of requests by their outcome
      attr_reader :outcomes
      # @return [Hash{Symbol=>Integer}] further counters
      attr_reader :counts

      # @param pool [ConnectionPool]
      def initialize(pool)
        @pool = pool
        @in_flight = @tunnels = @failures = @times_out = @checks = 0
        @trying = @down = @told = false
        @lines = {}
        @outcomes = Hash.new(0)
        @counts = {connect_failures: 0, retries: 0, tunnels: 0, taken_out: 0, checks_passed: 0, checks_failed: 0}
      end

      # @return [Upstream]
      def upstream = @pool.upstream

      # @param time [Float]
      # @return [Boolean] whether it gets requests
      def usable?(time) = !@down && (@out_until.nil? || (time >= @out_until && !@trying))

      # One that accepts some connections and no others is left alone, and comes back, with each of them. A line that is
      # left out comes later, if it is right by then.
      # @param out [Boolean] whether it is left alone now
      # @param time [Float]
      # @return [Boolean] whether the log gets a line
      def tell?(out, time)
        return false if @told == out || time - @lines.fetch(out, -Float::INFINITY) < PAUSE
        @lines[out] = time
        @told = out
        true
      end

      # @param time [Float]
      # @return [Hash{Symbol=>Object}]
      def stats(time = now)
        {in_flight: @in_flight, out: !@out_until.nil?, out_seconds: left(time), trying: @trying, down: @down,
         requests: @outcomes.dup, **@counts, connections: @pool.stats}
      end

      private

      # @return [Float] seconds for which it is left alone; 0: it is not, or the next request tries it
      def left(time) = [(@out_until || time) - time, 0.0].max.round(3)
    end
  end
end
