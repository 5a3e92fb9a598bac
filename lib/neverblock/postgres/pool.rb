# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Owns the connections and the requests that wait for one. {Router} chooses a connection, {Backlog} waits,
    # {ConnectionFactory} opens. {ServerHistory} and {ServerDefaults} detect that a statement would mean something else
    # on new connections: then all are replaced.
    #
    #   pool = Pool.new(owner, factory, server_history, timings:, journal:, connections: 12, max_waiting: 20_000,
    #     timeout: 5)
    #   pool.find_place(request) until request.connection
    #   pool.settle(connection)      # a statement or lease has ended on it: other requests get the place
    #
    # Its lock is the only one around {Router}.
    # @api private
    class Pool
      # @param owner [#opened, #finished, #lost] gets the callbacks of connections
      # @param factory [ConnectionFactory]
      # @param server_history [ServerHistory]
      # @param timings [Timings]
      # @param journal [Journal]
      # @param connections [Integer] maximum number of connections
      # @param shares [Boolean] whether one connection is always left to share
      # @param max_waiting [Integer] maximum number of waiting requests
      # @param timeout [Numeric, nil] seconds that a request waits
      # @param tally [Tally]
      # @yield when a different server answers than before
      def initialize(owner, factory, server_history, timings:, journal:, connections:, max_waiting:, timeout:,
        tally: Tally.new, shares: true, &replaced)
        @owner = owner
        @factory = factory
        @server_history = server_history
        @journal = journal
        @tally = tally
        @replaced = replaced
        @lock = Thread::Mutex.new
        @server_defaults = ServerDefaults.new
        @router = Router.new(limit: connections, timings:, shares:, max_waiting:)
        @backlog = Backlog.new(@router, @lock, connections:, tally:, limit: max_waiting, timeout:)
        @wanted = SessionDefaults::EMPTY
        @closed = false
      end

      # @return [Router]
      attr_reader :router
      # @return [Backlog]
      attr_reader :backlog

      # @return [Array<PipelinedConnection>]
      def connections = @router.connections

      # @return [Boolean] whether a connection is idle
      def any_idle? = @router.any_idle?

      # @return [SessionDefaults] those of the last connection that a request opened; others get them in advance
      attr_reader :wanted

      # @return [Integer] connections with these session defaults
      def serving = @lock.synchronize { @router.serving(@wanted) }

      # @return [Hash{Symbol=>Integer}]
      def stats = @lock.synchronize { @router.stats }

      # @return [Array(Hash{Symbol=>Object}, Float, Array)] a consistent set of counts; when the oldest waiting request
      #   was queued; the holdings
      def look = @lock.synchronize { [{**@router.uses, **@router.stats}, @router.queued_since, @router.holdings] }

      # @return [Boolean]
      def closed? = @closed

      # @return [void]
      # @raise [ClosedError]
      def check
        raise ClosedError, "this NeverBlock::Postgres was closed: open a new one" if @closed
      end

      # Call it until the request has its connection.
      # @param request [Request]
      # @yield before the request waits, and when it shares a connection, so that others may wait for it
      # @return [void]
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
        when :placed then yield if request.connection.depth > 1
        when :open then open_for(request)
        when :queued
          yield
          @backlog.wait(request)
        when :full then @backlog.full
        end
      end

      # @param read [Read]
      # @param time [Float] now, on the monotonic clock
      # @return [PipelinedConnection, nil] an idle connection, lent to this read
      def lend(read, time) = @lock.synchronize { @router.lend(read, time) }

      # @param connection [PipelinedConnection] one that was lent, with its session unchanged
      # @return [Boolean] whether it is idle again; false: call {#settle}
      def take_back(connection) = @lock.synchronize { @router.take_back(connection) }

      # Lets other statements share a connection that was lent.
      # @param connection [PipelinedConnection]
      # @return [void]
      def call_in(connection) = @lock.synchronize { @router.call_in(connection) }

      # Takes a request out of the queue, since no fiber waits for it any more.
      # @param request [Request]
      # @return [Boolean] whether it was queued
      def withdraw(request)
        @lock.synchronize do
          next true if @router.withdraw(request)
          @router.nudge unless request.connection # it may have been the one that was woken to look for a place
          false
        end
      end

      # @see Router#ask
      # @return [void]
      def ask(locks, scheduler) = @lock.synchronize { @router.ask(locks, scheduler) }

      # Gives the place of a statement or lease that has ended to the next request.
      # @param connection [PipelinedConnection]
      # @return [void]
      def settle(connection)
        @lock.synchronize { @router.settle(connection) }
        go_on(connection)
      end

      # Sends the statements that have just got their places, if they are of this loop. Else their fibers do it.
      # @param connection [PipelinedConnection]
      # @return [void]
      def go_on(connection)
        return if connection.idle?
        return connection.wake_all unless connection.loop.equal?(Scheduler.current)
        connection.flush
        connection.hand_over
      end

      # Holds a connection for an audit or a reset.
      # @param connection [PipelinedConnection]
      # @yieldreturn [Boolean] whether the reason still applies
      # @return [Boolean] whether it is held now
      def hold(connection)
        @lock.synchronize { connection.broken.nil? && yield && @router.hold(connection, Holder::UPKEEP) && true }
      end

      # Makes a connection take no more statements until it has been idle.
      # @param connection [PipelinedConnection]
      # @yieldreturn [Boolean] whether the reason still applies
      # @return [Boolean] whether it is draining now
      def drain(connection)
        @lock.synchronize { yield && connection.draining = true }
      end

      # @param shape [String] fingerprint of statements that have turned out to be fast
      # @return [void]
      def learnt_fast(shape) = @lock.synchronize { @router.learnt_fast(shape) }

      # @param connection [PipelinedConnection] the one that was lost
      # @return [Array<PipelinedConnection>] idle ones that the server has most likely ended too; close them, so that a
      #   retry gets a new one
      def lost(connection)
        @tally.lost += 1
        @lock.synchronize do
          @router.lost(connection)
          connection.ended_by_server ? @router.outdate : []
        end
      end

      # The server was promoted while connections were open.
      # @return [void]
      def left
        replace(*@lock.synchronize { [@server_history.leave, @router.outdate] })
      end

      # Opens a connection that no request waits for, if there is room.
      # @param least [Integer] number of connections to have with these session defaults
      # @yieldreturn [Boolean] whether the connection is still wanted
      # @return [Boolean] whether one was opened
      # @raise [PG::Error, ConfigurationError]
      def open_extra(least, &)
        request = ExtraConnectionRequest.new(@wanted)
        victim = nil
        room = @lock.synchronize do
          @router.begin_extra(request.session_defaults, least).tap { victim, @router.victim = @router.victim, nil }
        end
        victim&.close
        open_here(request, &) if room
        room
      end

      # Closes the idle connections.
      # @return [void]
      def rest = @lock.synchronize { @router.rest }.each(&:close)

      # @return [void]
      def close
        @closed = true
        @lock.synchronize { @router.empty_queues }
        connections.dup.each { |connection| connection.break_off(ClosedError.new("NeverBlock::Postgres was closed")) }
      end

      private

      # In a loop a task of its own opens the connection. If the requesting fiber is cancelled, others get it.
      def open_for(request)
        return open_here(request) unless Scheduler.current
        outcome = Thread::Queue.new
        Background.run do
          open_here(request)
          outcome << true
        rescue => error
          outcome << error
        ensure
          outcome.close
        end
        error = outcome.pop || ClosedError.new("the loop ended while a connection was being opened")
        raise error if Exception === error
      end

      def open_here(request)
        placed = false
        connection = @factory.call(request.session_defaults, @owner)
        check
        return if block_given? && !yield
        welcome(connection, request) { placed = true }
        @owner.opened
        go_on(connection)
      rescue PG::ServerError, ConfigurationError
        raise # the server is reachable: this error concerns only this request's settings
      rescue => unreachable
        raise
      ensure
        unless placed
          connection&.close
          @lock.synchronize { @router.not_opened(request, unreachable) }
        end
      end

      # Adds a new connection to the pool. If it has reached another server or configuration, it replaces the others.
      # @yield under the lock, once the router knows the connection: an exception from outside may come at any time
      def welcome(connection, request)
        replaced = changed = outdated = nil
        @lock.synchronize do
          before = @server_history.current
          replaced = [before, @router.outdate] if @server_history.arrive(connection.server)
          if connection.server_defaults
            changed = @server_defaults.changed(request.session_defaults, connection.server_defaults)
          end
          outdated = @router.outdate if changed
          connection.cluster = @server_history.clusters
          @tally.opened += 1
          @wanted = request.session_defaults unless request.abandoned?
          @router.opened(connection, request)
          yield
        end
        replace(*replaced, connection.server) if replaced
        redefined(outdated, changed) if changed
      end

      # The server's defaults have changed: a statement would mean something else on the older connections.
      def redefined(idle, what)
        idle.each(&:close)
        @journal.say("the server's settings for new connections have changed (#{what}): all connections are replaced")
      end

      def replace(before, idle, server = nil)
        idle.each(&:close)
        @replaced&.call
        @journal.say("#{server || "another one"} answers now, where #{before} did: all connections are replaced")
      end
    end
  end
end
