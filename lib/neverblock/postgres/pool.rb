# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The connections that there are, and the requests that wait for one: {Router} chooses, {Backlog} waits, {Opener} opens, and
    # {Hosts} and {Defaults} say when all are to be replaced, since new ones would mean something else.
    #
    #   pool = Pool.new(opener, hosts, timings:, journal:, connections: 12)
    #   pool.find_place(request) until request.backend
    #   pool.settle(backend)         # something has ended on it: others may have its place
    #
    # The one lock around {Router} is here.
    # @api private
    class Pool
      # @param owner [#opened, #finished, #lost] what is told of a new connection, and of what ends on one
      # @param opener [Opener]
      # @param hosts [Hosts]
      # @param timings [Timings]
      # @param journal [Journal]
      # @param connections [Integer] at most
      # @param shares [Boolean] whether one is left to share
      # @param backlog [Integer] requests that may wait
      # @param timeout [Numeric, nil] seconds that one waits at most
      # @param tally [Tally]
      # @yield where another server answers than before
      def initialize(owner, opener, hosts, timings:, journal:, connections:, tally: Tally.new, shares: true, backlog: Backlog::LIMIT, timeout: Backlog::TIMEOUT, &replaced)
        @owner = owner
        @opener = opener
        @hosts = hosts
        @journal = journal
        @tally = tally
        @replaced = replaced
        @lock = Thread::Mutex.new
        @defaults = Defaults.new
        @router = Router.new(limit: connections, timings:, shares:, backlog:)
        @backlog = Backlog.new(@router, @lock, connections:, tally:, limit: backlog, timeout:)
        @wanted = Profile::EMPTY
        @closed = false
      end

      # @return [Router]
      attr_reader :router
      # @return [Backlog]
      attr_reader :backlog

      # @return [Array<Backend>]
      def backends = @router.backends

      # @return [Boolean] whether there are more connections than statements
      def spare? = @router.spare?

      # @return [Profile] of the connection that was opened last for a request: of those that nobody has asked for yet, too
      attr_reader :wanted

      # @return [Integer] connections of that profile
      def serving = @lock.synchronize { @router.serving(@wanted) }

      # @return [Hash{Symbol=>Integer}]
      def stats = @lock.synchronize { @router.stats }

      # @return [Array(Hash{Symbol=>Object}, Float, Array)] the counts of one moment; since when the oldest request is queued; the holdings
      def look = @lock.synchronize { [{**@router.uses, **@router.stats}, @router.queued_since, @router.holdings] }

      # @return [Boolean]
      def closed? = @closed

      # @return [void]
      # @raise [ClosedError]
      def check
        raise ClosedError, "this NeverBlock::Postgres was closed: open a new one" if @closed
      end

      # @param request [Request]
      # @yield where it waits, or others may wait for it
      # @return [void] when it has its `backend`, or is to ask again
      # @raise [PG::Error, PoolTimeout]
      def find_place(request)
        check
        victim = nil
        placed = @lock.synchronize do
          way = @router.route(request)
          victim, @router.victim = @router.victim, nil
          way
        end
        victim&.close
        case placed
        when :placed then yield if request.backend.depth > 1
        when :open then open_for(request)
        when :queued
          yield
          @backlog.wait(request)
        when :full then @backlog.full
        end
      end

      # @param statement [Statement] that may share
      # @return [Backend, nil] an idle one, for this statement alone
      def lend(statement) = @lock.synchronize { @router.lend(statement) }

      # @param backend [Backend] that was lent, and is as it was
      # @return [Boolean] whether it is idle again; false: it is to be settled
      def take_back(backend) = @lock.synchronize { @router.take_back(backend) }

      # @param backend [Backend] that was lent: others may share it from now on
      # @return [void]
      def call_in(backend) = @lock.synchronize { @router.call_in(backend) }

      # No fiber waits for it any more.
      # @param request [Request]
      # @return [Boolean] whether it was queued
      def withdraw(request)
        @lock.synchronize do
          next true if @router.withdraw(request)
          @router.nudge unless request.backend # it may have been told to look
          false
        end
      end

      # Something ended on it, or it was given back: others may have its place.
      # @param backend [Backend]
      # @return [void]
      def settle(backend)
        @lock.synchronize { @router.settle(backend) }
        go_on(backend)
      end

      # What has just got its place is sent by the fiber that made it, if that is of the same loop, else by its own.
      # @param backend [Backend]
      # @return [void]
      def go_on(backend)
        return if backend.idle?
        return backend.wake_all unless backend.loop.equal?(Scheduler.current)
        backend.flush
        backend.hand_over
      end

      # Takes it away from all, to look at it, or clean it.
      # @param backend [Backend]
      # @yieldreturn [Boolean] whether that is still to be done
      # @return [Boolean]
      def hold(backend)
        @lock.synchronize { backend.broken.nil? && yield && @router.hold(backend, Holder::UPKEEP) && true }
      end

      # It takes no more statements until it has been idle.
      # @param backend [Backend]
      # @yieldreturn [Boolean] whether that is still to be done
      # @return [Boolean]
      def reserve(backend)
        @lock.synchronize { yield && backend.reserved = true }
      end

      # @param shape [String] that has turned out to be fast
      # @return [void]
      def learnt_fast(shape) = @lock.synchronize { @router.learnt_fast(shape) }

      # @param backend [Backend] that is gone
      # @return [Array<Backend>] those that have most likely ended too, to be closed: what is tried again gets a new one
      def lost(backend)
        @tally.lost += 1
        @lock.synchronize do
          @router.lost(backend)
          backend.ended_by_server ? @router.outdate : []
        end
      end

      # The server's role has changed, under its connections.
      # @return [void]
      def left
        replace(*@lock.synchronize { [@hosts.leave, @router.outdate] })
      end

      # Opens one that no request waits for, if there is room.
      # @param least [Integer] connections of the profile that there are to be
      # @yieldreturn [Boolean] whether it is still wanted
      # @return [Boolean] whether it was opened
      # @raise [PG::Error, ConfigurationError]
      def open_spare(least, &)
        spare = Spare.new(@wanted)
        victim = nil
        room = @lock.synchronize do
          @router.spare(spare.profile, least).tap { victim, @router.victim = @router.victim, nil }
        end
        victim&.close
        open_here(spare, &) if room
        room
      end

      # Closes the connections that nothing uses.
      # @return [void]
      def rest = @lock.synchronize { @router.rest }.each(&:close)

      # @return [void]
      def close
        @closed = true
        @lock.synchronize { @router.empty_queues }
        backends.dup.each { |backend| backend.break_off(ClosedError.new("NeverBlock::Postgres was closed")) }
      end

      private

      # In a loop by a task of its own: a fiber that gives up meanwhile leaves no connection half open, but a whole one for others.
      def open_for(request)
        return open_here(request) unless Scheduler.current
        answer = Thread::Queue.new
        Background.run do
          open_here(request)
          answer << true
        rescue => error
          answer << error
        ensure
          answer.close
        end
        error = answer.pop || ClosedError.new("the loop ended while a connection was being opened")
        raise error if Exception === error
      end

      def open_here(request)
        placed = false
        backend = @opener.call(request.profile, @owner)
        check
        return if block_given? && !yield
        welcome(backend, request) { placed = true }
        @owner.opened
        go_on(backend)
      rescue PG::ServerError, ConfigurationError
        raise # the server answers: others may want something else of it
      rescue => unreachable
        raise
      ensure
        unless placed
          backend&.close
          @lock.synchronize { @router.not_opened(request, unreachable) }
        end
      end

      # It has its place among the others, or takes theirs.
      # @yield when it has: an exception from outside may come at any time
      def welcome(backend, request)
        replaced = changed = outdated = nil
        @lock.synchronize do
          before = @hosts.current
          replaced = [before, @router.outdate] if @hosts.arrive(backend.server)
          changed = @defaults.changed(request.profile, backend.defaults) if backend.defaults
          outdated = @router.outdate if changed
          backend.cluster = @hosts.clusters
          @tally.opened += 1
          @wanted = request.profile unless request.abandoned?
          @router.opened(backend, request)
          yield
        end
        replace(*replaced, backend.server) if replaced
        redefined(outdated, changed) if changed
      end

      # New connections mean something else by the same statement: those of before serve nothing more.
      def redefined(idle, what)
        idle.each(&:close)
        @journal.say("what the server sets for new connections has changed (#{what}): all connections are replaced")
      end

      def replace(before, idle, server = nil)
        idle.each(&:close)
        @replaced&.call
        @journal.say("#{server || "another one"} answers now, where #{before} did: all connections are replaced")
      end
    end
  end
end
