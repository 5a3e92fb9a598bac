# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The connections to one upstream. A connection serves one exchange at a time and is kept for the next one only
    # if the exchange has ended cleanly. Fibers and threads share it, inside of loops and outside.
    #
    #   pool = ConnectionPool.new(upstream, max_connections: 50, idle_timeout: 10)
    #   Exchange.new(pool, request).call { |response| response.read }
    #   pool.stats    # => {open: 1, idle: 1, held: 0, waiting: 0, opened: 1, reused: 0}
    #   pool.close
    #
    # {NeverBlock::ConnectionPool} is not used here: it lends a connection to a fiber, while a response may be read in
    # another fiber than the one that asked for it.
    class ConnectionPool
      include MonotonicClock

      COUNT = ValueType.count(least: 1)
      WAITING = ValueType.count
      SECONDS = ValueType.seconds.optional
      NONE = [].freeze
      private_constant :COUNT, :WAITING, :SECONDS, :NONE

      # @return [Upstream]
      attr_reader :upstream
      # @api private
      # @return [Slots]
      attr_reader :slots

      # @param upstream [Upstream]
      # @param max_connections [Integer] that are in use at the same time
      # @param max_idle [Integer] idle ones
      # @param idle_timeout [Numeric, nil] seconds after which an idle one is not used again; it should be less than
      #   the upstream's own
      # @param max_age [Numeric, nil] seconds after which one is not used again, so that a change in DNS takes effect
      # @param max_waiting [Integer] exchanges that wait for a connection, each for at most the timeout `connect`
      # @raise [ConfigurationError]
      def initialize(upstream, max_connections: 100, max_idle: 32, idle_timeout: 15, max_age: 300, max_waiting: 1_000)
        @upstream = upstream
        @max_connections = COUNT.setting(max_connections) { "max_connections:" }
        @max_idle = WAITING.setting(max_idle) { "max_idle:" }
        @idle_timeout = SECONDS.setting(idle_timeout) { "idle_timeout:" }
        @max_age = SECONDS.setting(max_age) { "max_age:" }
        @max_waiting = WAITING.setting(max_waiting) { "max_waiting:" }
        @lock = Thread::Mutex.new
        @idle = [] # the last one was used last
        @slots = Slots.new(@max_connections, @max_waiting)
        @opened = @reused = 0
        @closed = false
        Forks.watch(self)
      end

      # Closes the idle connections. Those in use are closed at their end, and later exchanges are refused.
      # @return [void]
      def close
        @closed = true
        clear.each(&:close)
      end

      # Closes connections that have been idle for too long. The pool does so too, whenever it is used.
      # @return [void]
      def reap = expired(now).each(&:close)

      # @return [Hash{Symbol=>Integer}] `held`: in use, or being opened; `opened` and `reused` count since the beginning
      def stats
        idle, held = @idle.size, @slots.held
        {open: idle + held, idle:, held:, waiting: @slots.waiting, opened: @opened, reused: @reused}
      end

      # @return [String]
      def inspect = "#<#{self.class} #{@upstream}: #{@slots.held} of #{@max_connections} held, #{@idle.size} idle>"

      # @api private
      # Gives the lease a slot.
      # @param lease [Lease]
      # @param deadlines [Deadlines]
      # @return [void]
      # @raise [OverloadError, ClosedError, TotalTimeout]
      def admit(lease, deadlines)
        raise ClosedError, "the pool of the upstream #{@upstream} is closed, and takes no more requests" if @closed
        return if @slots.acquire_now(lease)
        deadlines.start(:connect)
        seconds, phase = deadlines.left(:connect)
        admitted = @slots.acquire(lease, seconds&.clamp(0, nil))
        return if admitted == true
        deadlines.late(:total) if phase == :total && !admitted
        raise OverloadError.new("upstream #{@upstream}: #{(admitted == :full) ? "#{@max_waiting} requests wait " \
          "already" : "no connection became free in time"}; #{@max_connections} are in use. Raise max_connections:, " \
          "or see why the upstream is slow", upstream: @upstream, phase: :queue)
      end

      # @api private
      # Gives the lease the connection that was passed on with its slot, or an idle one, if there is a good one.
      # @param lease [Lease]
      # @return [void]
      def take(lease)
        time = now
        expired(time).each(&:close)
        connection = lease.connection || pop(lease)
        until connection.nil? || (!aged?(connection, time) && connection.quiet?)
          connection.close
          connection = pop(lease)
        end
        @reused += 1 if connection
      end

      # @api private
      # Ends the lease. With the slot the next in line gets its connection; `max_idle:` is for the others.
      # @param lease [Lease] whose connection others may use
      # @return [void]
      def give(lease)
        return if @closed || lease.slots.release(lease, lease.connection)
        rest(lease)
      ensure
        lease.abandon # closes a connection that the lease still has
      end

      # @api private
      # @param deadlines [Deadlines]
      # @param preface [String, nil] its first bytes
      # @return [Socket, OpenSSL::SSL::SSLSocket] a new connection
      def dial(deadlines, preface)
        Dialer.new(@upstream, deadlines, preface).call.tap { @opened += 1 }
      end

      # @api private
      # In a forked child: the parent's connections are not used.
      # @return [void]
      def disown
        @lock = Thread::Mutex.new
        @slots = Slots.new(@max_connections, @max_waiting)
        clear.each(&:disown)
      end

      private

      # The lease has the connection until it is the pool's, so that none is lost between.
      def rest(lease)
        @lock.synchronize do
          if !@closed && @idle.size < @max_idle
            @idle.push(lease.connection)
            lease.connection = nil
          end
        end
      end

      # @return [Connection, nil]
      def pop(lease) = @lock.synchronize { lease.connection = @idle.pop }

      def clear
        idle = nil
        @lock.synchronize { idle, @idle = @idle, [] }
        idle
      end

      # Those that were idle for longest are in front.
      def expired(time)
        return NONE if @idle_timeout.nil? || @idle.empty?
        latest = time - @idle_timeout
        return NONE unless @idle.first&.idle_since&.<(latest)
        gone = []
        while (oldest = @idle.first) && oldest.idle_since < latest
          @lock.synchronize { gone << @idle.shift if oldest.equal?(@idle.first) }
        end
        gone
      end

      def aged?(connection, time) = @max_age && time - connection.opened_at > @max_age
    end
  end
end
