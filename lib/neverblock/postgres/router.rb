# frozen_string_literal: true

require_relative "router/figures"
require_relative "router/lending"
require_relative "router/limits"

module NeverBlock
  class Postgres
    # Which connection a request gets: no I/O, no waits, one lock around it (the {Pool}'s).
    #
    # A shared statement goes to an idle connection, else a new one is opened for it, else it goes behind the fewest others, else
    # it is queued. What needs a connection for itself - a write, a slow or unknown statement, a lease - waits for an idle one;
    # one that is in use is drained for it, so that it gets idle. One connection is always left to share, and one more to what is not
    # known to be slow.
    # @api private
    class Router
      include Figures
      include Lending
      include Limits

      # Seconds for which statements that share are expected to come again.
      SHARING_EXPECTED_FOR = 0.1

      # Seconds without a statement after which a connection of other session defaults makes room for one that nobody waits for.
      EVICT_IDLE_AFTER = 1.0
      private_constant :EVICT_IDLE_AFTER

      # @return [Array<PipelinedConnection>]
      attr_reader :connections

      # @param limit [Integer] connections
      # @param timings [Timings]
      # @param shares [Boolean] whether one is left to share
      # @param max_waiting [Integer] how many may be queued
      def initialize(limit:, timings:, shares: true, max_waiting: Float::INFINITY)
        @limit = limit
        @max_waiting = max_waiting
        @backoff = Backoff.new
        @shares = shares
        @timings = timings
        @connections = []
        @idle = []
        @shared = []
        @exclusive = []
        @opening_requests = [] # those of them that open a connection
        @opening = @held = 0
        @moved_at = @shared_at = -SHARING_EXPECTED_FOR
        @lent = @deepest = 0
        @wrote_at = -Limits::WRITES_EXPECTED_FOR
        @looking = nil
      end

      # @param request [Request]
      # @return [:placed, :open, :queued, :full] placed: it has its `connection`; open: it is to open one, and tell by {#opened} or
      #   {#not_opened}; full: too many are queued
      def route(request)
        request.exclusive? ? route_exclusive(request) : route_shared(request)
      end

      # @return [PipelinedConnection, nil] an idle one of other session defaults, to be closed before one is opened
      attr_accessor :victim

      # @param connection [PipelinedConnection] that the request opened
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

      # It could not be opened: the next one in the queue tries. Where there is no server, after a pause, and if there is no connection at
      # all, all of the queue learn why.
      # @param unreachable [Exception, nil] why there is no server
      def not_opened(request, unreachable = nil)
        @opening -= 1
        @opening_requests.delete(request)
        @held -= 1 if request.exclusive?
        first = unreachable && !@backoff.active? # from now on they look by themselves
        @backoff.failed(unreachable) if unreachable
        (first || hopeless?(-Float::INFINITY)) ? empty_queues : nudge
      end

      # @param time [Float] of the monotonic clock
      # @return [Exception, nil] why nobody who waits since then is to wait any longer
      def hopeless?(time) = (@backoff.since(time) if @connections.empty? && @opening.zero?)

      # @return [Float, nil] seconds after which those who wait are to look again, since nobody tells them that a pause has ended
      def pause
        return unless @backoff.active?
        @opening.zero? ? @backoff.left + 0.001 : Backoff::LONGEST_PAUSE
      end

      # @return [Boolean] whether it is the first in a queue
      def head?(request) = first?(request) || @shared.first.equal?(request)

      # Something ended on it, or it was given back: others may have its place.
      # @param connection [PipelinedConnection]
      def settle(connection)
        return if connection.broken
        return (grant_shared(connection) unless connection.holder || connection.draining || connection.lent) unless connection.idle?
        @deepest = 0 unless connection.holder || connection.lent
        call_in(connection)
        release(connection)
        relieved = connection.relieving # for those that wait for it
        connection.loop = nil
        connection.draining = connection.relieving = false
        given = relieved ? grant_shared(connection) || grant_exclusive(connection) : grant_exclusive(connection) || grant_shared(connection)
        @idle << connection unless given || @idle.include?(connection)
        nudge if !@idle.empty? && !(@shared.empty? && @exclusive.empty?) # one that was left to share may be wanted by now
        tell_first
      end

      # @return [Boolean] whether nothing uses it
      def idle?(connection) = @idle.include?(connection)

      # @return [Boolean] whether nobody uses it, and somebody has since it was last looked at
      def unseen?(connection) = idle?(connection) && connection.used_unseen?

      # @return [Integer] connections of a set of session defaults that are there, or soon will be, and are not to end
      def serving(session_defaults) = @opening + @connections.count { |connection| connection.session_defaults == session_defaults && !connection.stale }

      # @param least [Integer] connections of a set of session defaults that there are to be
      # @return [Boolean] whether one that no request waits for is to be opened: {#opened} or {#not_opened} says what came of it
      def begin_extra(session_defaults, least) = serving(session_defaults) < least && (room? || replace_unused(session_defaults)) && !open.nil?

      # Takes it away from all requests.
      # @return [void]
      def hold(connection, holder)
        return connection.holder = holder if connection.holder
        call_in(connection)
        @idle.delete(connection)
        connection.holder = holder
        @held += 1
      end

      # It is gone.
      def lost(connection)
        return unless @connections.delete(connection)
        call_in(connection)
        @idle.delete(connection)
        release(connection)
        nudge
      end

      # @return [Array<PipelinedConnection>] those that nobody uses, which are no longer known
      def rest
        idle, @idle = @idle, []
        @connections -= idle
        idle
      end

      # @return [Boolean] whether it is the first of those that wait for a connection alone
      def first?(request) = @exclusive.first.equal?(request)

      # @return [Boolean] whether it is that, and waits only because one connection is left to share: it is to look again soon,
      #   for nothing else may tell it that nobody shares any more
      def deferred?(request)
        deferred = first?(request) && !request.lease? && @held < @limit && (room? || !@idle.empty?)
        @looking = (request if deferred) if deferred || @looking.equal?(request)
        deferred
      end

      # Nobody waits for it any more.
      # @return [Boolean] whether it was queued
      def withdraw(request)
        withdrawn = @exclusive.delete(request) || @shared.delete(request)
        tell_first
        !withdrawn.nil?
      end

      # There is room for a new connection: the first in the queue tries.
      def nudge
        return unless room? || !@idle.empty?
        index = @exclusive.index { |waiting| hold?(waiting) }
        request = index ? @exclusive.delete_at(index) : @shared.shift
        restart(request) if request
      end

      # They ask again, and are told that it is closed.
      def empty_queues
        [*@exclusive, *@shared].each { |request| restart(request) }
        @exclusive.clear
        @shared.clear
      end

      # Those that were queued because nobody knew how long they take, and now somebody does.
      # @return [void]
      def learnt_fast(shape)
        known, @exclusive = @exclusive.partition { |request| request.fingerprint == shape }
        known.each { |statement| statement.alone = false }
        known.each { |statement| restart(statement) }
        tell_first
      end

      # Another server has taken the place of theirs: none of them gets anything more.
      # @return [Array<PipelinedConnection>] those that nobody uses, which are no longer known
      def outdate
        @connections.each { |connection| connection.stale = connection.draining = true }
        rest
      end

      # @return [Boolean] whether somebody left the queue of shared statements in the last seconds
      def moved_within?(seconds) = now - @moved_at < seconds

      # @return [Boolean] whether there are more connections than statements
      def any_idle? = !@idle.empty?

      # @param scheduler [Object]
      # @return [Boolean] whether a fiber of its may wait for what another one has sent
      def waits?(scheduler)
        !@shared.empty? || !@exclusive.empty? || @connections.any? { |connection| connection.depth > 1 && connection.loop.equal?(scheduler) }
      end

      # @return [Boolean] whether statements that share find no connection
      def crowded? = !@shared.empty? && !room?

      # @param seconds [Float] that the transaction has asked nothing
      # @return [Boolean] whether statements find no connection, and a transaction that has one may wait for one of them
      def stuck?(seconds) = !room? && !(@shared.empty? && @exclusive.all?(&:lease?)) && @connections.any? { |connection| connection.rests?(seconds) }

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
        @shared << request
        drain(@shared.size) if @connections.none? { |candidate| candidate.loop.equal?(request.loop) && !candidate.holder }
        :queued
      end

      def route_exclusive(request)
        @wrote_at = now unless request.fingerprint # what may share has one, be it slow or new
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
        @exclusive.insert(line_up(request), request)
        drain([@exclusive.size, most_held(request) - @held].min) unless capped?(request)
        :queued
      end

      # Those that are known to be slow take every other turn at most, while others wait: a write, or what nobody has seen yet, is
      # not behind all of them.
      # @return [Integer] its place in the queue
      def line_up(request)
        return @exclusive.size if @timings.slow?(request.fingerprint)
        last = @exclusive.rindex { |other| !@timings.slow?(other.fingerprint) } || -1
        [last + 2, @exclusive.size].min
      end

      def room? = @connections.size + @opening < @limit && opens?

      # Those that were queued meanwhile open the others.
      def recovered
        @backoff.succeeded
        (@limit - @connections.size - @opening).times { nudge }
      end

      # One at a time where the last one failed.
      def opens? = !@backoff.active? || (@opening.zero? && @backoff.left.zero?)

      def full? = @shared.size + @exclusive.size >= @max_waiting

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def open
        @opening += 1
        :open
      end

      # A connection of other session defaults goes.
      def replace
        return if victim || @idle.empty? || !opens?
        self.victim = @idle.shift
        @connections.delete(victim)
      end

      # One of a set of session defaults that nothing asks for at the moment: an adapter's first statements have others than all later ones.
      def replace_unused(session_defaults)
        return if victim || !opens?
        self.victim = @idle.find { |connection| connection.session_defaults != session_defaults && now - connection.heard > EVICT_IDLE_AFTER }
        @idle.delete(@connections.delete(victim)) if victim
      end

      def idle(session_defaults)
        return if @idle.empty?
        return @idle.pop if @idle.last.session_defaults == session_defaults
        index = @idle.rindex { |connection| connection.session_defaults == session_defaults }
        @idle.delete_at(index) if index
      end

      # The one with the fewest statements, unless what runs on it has turned out to be slow.
      def least(request)
        slow = @timings.threshold
        best = nil
        fewest = Float::INFINITY
        @connections.each do |connection|
          depth = connection.depth
          next if depth >= fewest || depth >= connection.capacity || connection.holder || connection.draining || connection.lent || connection.running > slow
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
        index = @exclusive.index { |request| request.session_defaults == connection.session_defaults && hold?(request) }
        return unless index
        @held += 1
        give(connection, @exclusive.delete_at(index))
        true
      end

      def grant_shared(connection)
        given = false
        while connection.depth < connection.capacity && !@shared.empty?
          index = @shared.index { |request| request.session_defaults == connection.session_defaults && (connection.loop.nil? || connection.loop.equal?(request.loop)) }
          break unless index
          request = @shared.delete_at(index)
          @moved_at = @shared_at = now
          share(connection, request)
          given = true
        end
        given
      end

      # The connection with the least on it takes nothing more until it is idle, for one of those that wait for that.
      # @param wanted [Integer] how many may be so at most
      def drain(wanted)
        free = @connections.reject { |connection| connection.holder || connection.draining }
        return if @connections.count(&:draining) >= wanted
        free.min_by(&:depth)&.draining = true
      end

      # It may be the first only now, and believe that others hold them all.
      def tell_first
        first = @exclusive.first
        restart(first) if first && !first.equal?(@looking) && deferred?(first)
      end

      # Its own fiber asks again.
      def restart(request) = request.wake
    end
  end
end
