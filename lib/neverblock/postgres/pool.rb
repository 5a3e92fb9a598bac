# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The connections that there are, and the requests that wait for one: {Router} chooses, {Backlog} waits, {ConnectionFactory} opens, and
    # {ServerHistory} and {ServerDefaults} say when all are to be replaced, since new ones would mean something else.
    #
    #   pool = Pool.new(factory, server_history, timings:, journal:, connections: 12)
    #   pool.find_place(request) until request.connection
    #   pool.settle(connection)         # something has ended on it: others may have its place
    #
    # The one lock around {Router} is here.
    # @api private
    class Pool
      # @param owner [#opened, #finished, #lost] what is told of a new connection, and of what ends on one
      # @param factory [ConnectionFactory]
      # @param server_history [ServerHistory]
      # @param timings [Timings]
      # @param journal [Journal]
      # @param connections [Integer] at most
      # @param shares [Boolean] whether one is left to share
      # @param max_waiting [Integer] requests that may wait
      # @param timeout [Numeric, nil] seconds that one waits at most
      # @param tally [Tally]
      # @yield where another server answers than before
      def initialize(owner, factory, server_history, timings:, journal:, connections:, tally: Tally.new, shares: true, max_waiting: Backlog::MAX_WAITING, timeout: Backlog::TIMEOUT, &replaced)
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

      # @return [Boolean] whether there are more connections than statements
      def any_idle? = @router.any_idle?

      # @return [SessionDefaults] of the connection that was opened last for a request: of those that nobody has asked for yet, too
      attr_reader :wanted

      # @return [Integer] connections of those session defaults
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
      # @return [void] when it has its `connection`, or is to ask again
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

      # @param statement [Statement] that may share
      # @return [PipelinedConnection, nil] an idle one, for this statement alone
      def lend(statement) = @lock.synchronize { @router.lend(statement) }

      # @param connection [PipelinedConnection] that was lent, and is as it was
      # @return [Boolean] whether it is idle again; false: it is to be settled
      def take_back(connection) = @lock.synchronize { @router.take_back(connection) }

      # @param connection [PipelinedConnection] that was lent: others may share it from now on
      # @return [void]
      def call_in(connection) = @lock.synchronize { @router.call_in(connection) }

      # No fiber waits for it any more.
      # @param request [Request]
      # @return [Boolean] whether it was queued
      def withdraw(request)
        @lock.synchronize do
          next true if @router.withdraw(request)
          @router.nudge unless request.connection # it may have been told to look
          false
        end
      end

      # Something ended on it, or it was given back: others may have its place.
      # @param connection [PipelinedConnection]
      # @return [void]
      def settle(connection)
        @lock.synchronize { @router.settle(connection) }
        go_on(connection)
      end

      # What has just got its place is sent by the fiber that made it, if that is of the same loop, else by its own.
      # @param connection [PipelinedConnection]
      # @return [void]
      def go_on(connection)
        return if connection.idle?
        return connection.wake_all unless connection.loop.equal?(Scheduler.current)
        connection.flush
        connection.hand_over
      end

      # Takes it away from all, to look at it, or clean it.
      # @param connection [PipelinedConnection]
      # @yieldreturn [Boolean] whether that is still to be done
      # @return [Boolean]
      def hold(connection)
        @lock.synchronize { connection.broken.nil? && yield && @router.hold(connection, Holder::UPKEEP) && true }
      end

      # It takes no more statements until it has been idle.
      # @param connection [PipelinedConnection]
      # @yieldreturn [Boolean] whether that is still to be done
      # @return [Boolean]
      def drain(connection)
        @lock.synchronize { yield && connection.draining = true }
      end

      # @param shape [String] that has turned out to be fast
      # @return [void]
      def learnt_fast(shape) = @lock.synchronize { @router.learnt_fast(shape) }

      # @param connection [PipelinedConnection] that is gone
      # @return [Array<PipelinedConnection>] those that have most likely ended too, to be closed: what is tried again gets a new one
      def lost(connection)
        @tally.lost += 1
        @lock.synchronize do
          @router.lost(connection)
          connection.ended_by_server ? @router.outdate : []
        end
      end

      # The server's role has changed, under its connections.
      # @return [void]
      def left
        replace(*@lock.synchronize { [@server_history.leave, @router.outdate] })
      end

      # Opens one that no request waits for, if there is room.
      # @param least [Integer] connections of the session defaults that there are to be
      # @yieldreturn [Boolean] whether it is still wanted
      # @return [Boolean] whether it was opened
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

      # Closes the connections that nothing uses.
      # @return [void]
      def rest = @lock.synchronize { @router.rest }.each(&:close)

      # @return [void]
      def close
        @closed = true
        @lock.synchronize { @router.empty_queues }
        connections.dup.each { |connection| connection.break_off(ClosedError.new("NeverBlock::Postgres was closed")) }
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
        connection = @factory.call(request.session_defaults, @owner)
        check
        return if block_given? && !yield
        welcome(connection, request) { placed = true }
        @owner.opened
        go_on(connection)
      rescue PG::ServerError, ConfigurationError
        raise # the server answers: others may want something else of it
      rescue => unreachable
        raise
      ensure
        unless placed
          connection&.close
          @lock.synchronize { @router.not_opened(request, unreachable) }
        end
      end

      # It has its place among the others, or takes theirs.
      # @yield when it has: an exception from outside may come at any time
      def welcome(connection, request)
        replaced = changed = outdated = nil
        @lock.synchronize do
          before = @server_history.current
          replaced = [before, @router.outdate] if @server_history.arrive(connection.server)
          changed = @server_defaults.changed(request.session_defaults, connection.server_defaults) if connection.server_defaults
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
