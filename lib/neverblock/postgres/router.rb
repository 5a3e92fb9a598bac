# frozen_string_literal: true

require_relative "router/figures"
require_relative "router/lending"
require_relative "router/limits"
require_relative "router/line"
require_relative "router/outages"

module NeverBlock
  class Postgres
    # Decides which connection a request gets. It does no I/O and never waits; the lock around it is {Pool}'s.
    #
    # A shared statement goes to an idle connection. If there is none, a new one is opened. At the limit the statement
    # goes behind the fewest others, and where no connection has room it is queued. An exclusive request (a write, a
    # slow or unknown statement, a lease) waits for an idle connection; one in use is drained for it. One connection is
    # always left to share, and one more to statements that are not known to be slow.
    # @api private
    class Router
      include Figures
      include Lending
      include Limits
      include MonotonicClock
      include Outages

      # Seconds after a shared statement in which another one is expected, so that a connection is left for it.
      SHARING_EXPECTED_FOR = 0.1

      # Seconds without a statement after which an idle connection of other session defaults may be replaced.
      EVICT_IDLE_AFTER = 1.0
      private_constant :EVICT_IDLE_AFTER

      # @return [Array<PipelinedConnection>]
      attr_reader :connections

      # @param limit [Integer] maximum number of connections
      # @param timings [Timings]
      # @param shares [Boolean] whether one connection is always left to share
      # @param max_waiting [Integer] maximum number of queued requests
      def initialize(limit:, timings:, shares: true, max_waiting: Float::INFINITY)
        @limit = limit
        @max_waiting = max_waiting
        @backoff = Backoff.new
        @shares = shares
        @timings = timings
        @connections = []
        @idle = []
        @shared = Line.new { |request| [request.session_defaults, request.loop] }
        @exclusive = Line.new { |one| [one.lease?, one.fingerprint, one.session_defaults, one.urgent?] }
        @opening_requests = [] # the exclusive ones for which a connection is being opened
        @opening = @held = 0
        @moved_at = @shared_at = -SHARING_EXPECTED_FOR
        @lent = @deepest = 0
        @wrote_at = -Limits::WRITES_EXPECTED_FOR
        @looking = nil
      end

      # @param request [Request]
      # @return [:placed, :open, :queued, :full] placed: the request has its `connection`. open: the caller must open
      #   one, and report by {#opened} or {#not_opened}. full: too many are queued
      def route(request)
        request.exclusive? ? route_exclusive(request) : route_shared(request)
      end

      # @return [PipelinedConnection, nil] an idle connection that the caller must close before it opens one
      attr_accessor :victim

      # @param connection [PipelinedConnection] the one that was opened for the request
      def opened(connection, request)
        @opening -= 1
        @opening_requests.delete(request)
        @connections << connection
        recovered if @backoff.active?
        if request.abandoned?
          @held -= 1 if request.exclusive?
          settle(connection)
        elsif request.exclusive?
          give(connection, request)
        else
          share(connection, request)
          grant_shared(connection) unless connection.draining
        end
      end

      # @return [Boolean] whether the request is the first of its queue
      def head?(request) = first?(request) || @shared.first.equal?(request)

      # Gives the place of a statement or lease that has ended to the next request.
      # @param connection [PipelinedConnection]
      def settle(connection)
        return if connection.broken
        unless connection.idle?
          return (grant_shared(connection) unless connection.holder || connection.draining || connection.lent)
        end
        @deepest = 0 unless connection.holder || connection.lent
        call_in(connection)
        release(connection)
        relieved = connection.relieving # shared statements first: it was freed for them
        connection.loop = nil
        connection.draining = connection.relieving = false
        unless @shared.empty? && @exclusive.empty?
          given = grant_shared(connection) if relieved
          given ||= grant_exclusive(connection)
          given ||= grant_shared(connection) unless relieved
        end
        @idle << connection unless given || @idle.include?(connection)
        # A connection that was left to share may be wanted by now.
        return if @shared.empty? && @exclusive.empty?
        nudge unless @idle.empty?
        tell_first
      end

      # @return [Boolean]
      def idle?(connection) = @idle.include?(connection)

      # @return [Boolean] whether it is idle, and was used since its last audit
      def unseen?(connection) = idle?(connection) && connection.used_unseen?

      # @return [Integer] connections of these session defaults that are open or being opened, without stale ones
      def serving(session_defaults)
        @opening + @connections.count { |one| one.session_defaults == session_defaults && !one.stale }
      end

      # @param least [Integer] number of connections to have with these session defaults
      # @return [Boolean] whether the caller must open one for no request, and report {#opened} or {#not_opened}
      def begin_extra(session_defaults, least)
        serving(session_defaults) < least && (room? || replace_unused(session_defaults)) && !open.nil?
      end

      # Takes a connection away from all requests.
      # @return [void]
      def hold(connection, holder)
        return connection.holder = holder if connection.holder
        call_in(connection)
        @idle.delete(connection)
        connection.holder = holder
        @held += 1
      end

      # Forgets a connection that was lost.
      def lost(connection)
        return unless @connections.delete(connection)
        call_in(connection)
        @idle.delete(connection)
        release(connection)
        nudge
      end

      # Forgets the idle connections.
      # @return [Array<PipelinedConnection>] those
      def rest
        idle, @idle = @idle, []
        @connections -= idle
        idle
      end

      # @return [Boolean] whether it is the first of the waiting exclusive requests
      def first?(request) = @exclusive.first.equal?(request)

      # Asks the fibers that wait for a lease whether they own one of these locks.
      # @param locks [Array<Thread::Mutex>]
      # @param scheduler [Object] their loop
      # @return [void]
      def ask(locks, scheduler)
        @exclusive.to_a.each { |request| request.ask(locks) if request.lease? && request.loop.equal?(scheduler) }
      end

      # @return [Boolean] whether it is the first exclusive request, and waits only because one connection is left to
      #   share. It must look again soon: nothing may wake it when sharing ends
      def deferred?(request)
        deferred = first?(request) && !request.lease? && @held < @limit && (room? || !@idle.empty?)
        @looking = (request if deferred) if deferred || @looking.equal?(request)
        deferred
      end

      # Takes a request out of its queue.
      # @return [Boolean] whether it was queued
      def withdraw(request)
        withdrawn = @exclusive.delete(request) || @shared.delete(request)
        tell_first
        nudge # what others had to leave to this one
        !withdrawn.nil?
      end

      # Wakes the first request of the queues for which there is a place. One without a place would queue again, and
      # wake the next one: they would do so for ever.
      def nudge
        return unless room? || !@idle.empty?
        request = take(@exclusive) { |waiting| hold?(waiting) && place?(waiting) } if @held < @limit
        request ||= take(@shared) { |waiting| place?(waiting) }
        restart(request) if request
      end

      # Wakes all waiting requests: they ask again, and learn that the pool is closed or the server unreachable.
      def empty_queues
        (@exclusive.to_a + @shared.to_a).each { |request| restart(request) }
        @exclusive.clear
        @shared.clear
      end

      # Lets queued statements share whose duration was unknown until now.
      # @return [void]
      def learnt_fast(shape)
        known = @exclusive.take_all { |request| request.fingerprint == shape }
        @shared_at = now unless known.empty? # they come back at once, and need the connection left to share
        known.each { |statement| statement.alone = false }
        known.each { |statement| restart(statement) }
        tell_first
      end

      # Makes all connections stale: none of them gets another request.
      # @return [Array<PipelinedConnection>] the idle ones, which are forgotten
      def outdate
        @connections.each { |connection| connection.stale = connection.draining = true }
        rest
      end

      # @return [Boolean] whether a shared statement left the queue in the last seconds
      def moved_within?(seconds) = now - @moved_at < seconds

      # @return [Boolean] whether a connection is idle
      def any_idle? = !@idle.empty?

      # @return [Integer] number of queued requests
      def waiting = @shared.size + @exclusive.size

      # @param scheduler [Object]
      # @return [Boolean] whether a fiber of this loop may be waiting for another one's statement
      def waits?(scheduler)
        !@shared.empty? || !@exclusive.empty? ||
          @connections.any? { |one| one.depth > 1 && one.loop.equal?(scheduler) }
      end

      # @return [Boolean] whether shared statements wait, and no connection can be opened
      def crowded? = !@shared.empty? && !room?

      # @param seconds [Float] how long an open transaction must have been silent
      # @return [Boolean] whether statements wait for a connection, and a silent transaction may wait for them
      def stuck?(seconds)
        !room? && !(@shared.empty? && !@exclusive.any?(&:alone?)) &&
          @connections.any? { |connection| connection.rests?(seconds) }
      end

      private

      def route_shared(request)
        @shared_at = now
        if (connection = idle(request.session_defaults))
          share(connection, request)
          return :placed
        end
        return open if room? || replace
        if (connection = least(request))
          share(connection, request)
          return :placed
        end
        return :full if full?
        @shared.add(request)
        drain(@shared.size) if @connections.none? { |one| one.loop.equal?(request.loop) && !one.holder }
        :queued
      end

      def route_exclusive(request)
        @wrote_at = now unless request.fingerprint # only statements that may share have one, slow and unknown ones too
        if hold?(request)
          if (connection = idle(request.session_defaults))
            @held += 1
            give(connection, request)
            return :placed
          elsif room? || replace
            @held += 1
            @opening_requests << request
            return open
          end
        end
        return :full if full?
        # While others wait, known-slow statements get at most every second free connection, so that a write or an
        # unknown statement need not wait for all of them.
        @exclusive.add(request, yields: @timings.slow?(request.fingerprint))
        drain([@exclusive.size, most_held(request) - @held].min) unless capped?(request)
        :queued
      end

      # @return [Request, nil] the first of the queue for which the block is true; it leaves the queue
      def take(queue, &)
        return if queue.empty?
        request = queue.find(&)
        queue.delete(request) if request
      end

      # Where there is room, or a connection is idle: one of other session defaults is of use if another can be opened
      # in its place.
      def place?(request) = opens? || @idle.any? { |one| one.session_defaults == request.session_defaults }

      def room? = @connections.size + @opening < @limit && opens?

      def full? = waiting >= @max_waiting

      def open
        @opening += 1
        :open
      end

      # Gives up an idle connection of other session defaults.
      def replace
        return if victim || @idle.empty? || !opens?
        self.victim = @idle.shift
        @connections.delete(victim)
      end

      # The same for an extra connection, if the idle one has rested. (An adapter's first statements have other session
      # defaults than its later ones.)
      def replace_unused(session_defaults)
        return if victim || !opens?
        others = @idle.reject { |one| one.session_defaults == session_defaults }
        self.victim = others.find { |one| now - one.heard > EVICT_IDLE_AFTER }
        @idle.delete(@connections.delete(victim)) if victim
      end

      def idle(session_defaults)
        return if @idle.empty?
        return @idle.pop if @idle.last.session_defaults == session_defaults
        index = @idle.rindex { |connection| connection.session_defaults == session_defaults }
        @idle.delete_at(index) if index
      end

      # The connection with the fewest statements, of those whose running statement has not turned out to be slow.
      def least(request)
        slow = @timings.threshold
        best, fewest = nil, Float::INFINITY
        @connections.each do |connection|
          depth = connection.depth
          next if depth >= fewest || depth >= connection.capacity || connection.holder || connection.draining
          next if connection.lent || connection.running > slow
          next unless connection.loop.equal?(request.loop) && connection.session_defaults == request.session_defaults
          best = connection
          fewest = depth
        end
        @deepest = fewest if best
        best
      end

      def share(connection, request)
        connection.loop = request.loop
        request.granted(connection)
      end

      def give(connection, request)
        connection.holder = request
        connection.loop = request.loop
        request.granted(connection)
      end

      def release(connection)
        return unless connection.holder
        connection.holder = nil
        @held -= 1
      end

      def grant_exclusive(connection)
        request = take(@exclusive) { |one| one.session_defaults == connection.session_defaults && hold?(one) }
        return unless request
        @held += 1
        give(connection, request)
        true
      end

      def grant_shared(connection)
        given = false
        while connection.depth < connection.capacity
          request = take(@shared) do |one|
            one.session_defaults == connection.session_defaults &&
              (connection.loop.nil? || connection.loop.equal?(one.loop))
          end
          break unless request
          @moved_at = @shared_at = now
          share(connection, request)
          given = true
        end
        given
      end

      # Drains the connection with the fewest statements, for an exclusive request that waits.
      # @param wanted [Integer] maximum number of draining connections
      def drain(wanted)
        return if wanted <= 0 || @connections.count(&:draining) >= wanted
        free = @connections.reject { |connection| connection.holder || connection.draining }
        free.min_by(&:depth)&.draining = true
      end

      # Wakes the first exclusive request if it became deferred by becoming the first.
      def tell_first
        first = @exclusive.first
        restart(first) if first && !first.equal?(@looking) && deferred?(first)
      end

      # Wakes the request's fiber, which asks again.
      def restart(request) = request.wake
    end
  end
end
