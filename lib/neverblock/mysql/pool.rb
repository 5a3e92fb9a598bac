# frozen_string_literal: true

module NeverBlock
  class MySQL
    # The real connections. Each serves one statement, or one virtual connection, at a time. Those that wait for one get
    # it in their order. A virtual connection that does nothing parks its connection: it finds it again, unless another
    # has taken it meanwhile, for lack of an idle one.
    #
    #   pool = Pool.new(connections: 12, timeout: 5, max_waiting: 20_000) { Connection.new(Trilogy.new(host: "db")) }
    #   connection = pool.acquire("a transaction")
    #   pool.release(connection)     # or pool.drop(connection), which closes it
    #
    # Fibers of any loop and threads may use it. In a forked child it is empty.
    # @api private
    class Pool
      # Seconds between two calls of the reaper, which looks at all adapters.
      REAP_EVERY = 0.1
      # Purposes that a message names.
      MOST_NAMED = 8
      # What one that waits gets instead of a connection: it may open one; it can't wait.
      ROOM, FULL = :room, :full
      private_constant :REAP_EVERY, :MOST_NAMED, :ROOM, :FULL

      # @param connections [Integer] at most
      # @param timeout [Numeric, nil] seconds to wait for one
      # @param max_waiting [Integer] how many may wait
      # @yieldreturn [Connection] a new one
      def initialize(connections:, timeout:, max_waiting:, &open)
        @limit = connections
        @timeout = timeout
        @max_waiting = max_waiting
        @open = open
        @lock = Thread::Mutex.new
        start_afresh
      end

      # @return [#call, nil] called before a wait: takes back connections of fibers that have ended
      attr_writer :reaper

      # @param purpose [String] for messages
      # @return [Connection] that the server has not closed, as far as can be seen
      # @raise [PoolTimeout, BacklogFull]
      # @raise [Exception] of the driver, if none can be opened
      def acquire(purpose)
        loop do
          check_process
          connection = place || wait
          connection = open if connection == ROOM
          return lend(connection, purpose) if usable?(connection)
        end
      end

      # @return [Connection, nil] an idle or a new one; nil: one would have to wait
      def acquire_at_once(purpose)
        check_process
        while (connection = place)
          connection = open if connection == ROOM
          return lend(connection, purpose) if usable?(connection)
        end
      end

      # Keeps it for its user, who does nothing with it at present; or gives it to the next that waits.
      # @param connection [Connection] whose session is as new, but for what was saved
      # @param owner [Object] whose it remains
      # @param saved [SavedInsertId, nil]
      # @return [void]
      def park(connection, owner, saved)
        connection.saved = saved
        @lock.synchronize do
          next unless @busy.delete(connection)
          waiter = @waiting.shift
          waiter ? waiter << connection : @parked[connection] = owner
        end
      end

      # @param connection [Connection] that was parked
      # @param owner [Object]
      # @return [Boolean] whether it was still there, and not another's; it is in use again then
      def unpark(connection, owner)
        @lock.synchronize do
          next false unless @process == Process.pid && @parked[connection].equal?(owner)
          @parked.delete(connection)
          connection.saved = nil
          @busy[connection] = true
        end
      end

      # Gives it to the next that waits.
      # @param connection [Connection] whose session is as new
      # @return [void]
      def release(connection)
        connection.idle_since = now
        @lock.synchronize do
          next unless @busy.delete(connection)
          waiter = @waiting.shift
          waiter ? waiter << connection : @idle << connection
        end
        connection.close if @closed
      end

      # Closes it. Another may be opened.
      # @param connection [Connection]
      # @return [void]
      def drop(connection)
        @dropped += 1
        connection.close
      ensure
        @lock.synchronize { @busy.delete(connection) }
        room
      end

      # @return [Boolean] whether a connection is open
      def any? = @size > 0

      # Closes the idle connections; those in use are closed when their use ends.
      # @return [void]
      def close
        @closed = true
        idle = @lock.synchronize { @idle.pop(@idle.size) }
        idle.each { |connection| drop(connection) }
      end

      # Figures for {MySQL#stats}.
      # @return [Hash{Symbol=>Integer}]
      def stats
        @lock.synchronize do
          {size: @limit, connections: @size, idle: @idle.size, parked: @parked.size,
           busy: @size - @idle.size - @parked.size, waiting: @waiting.size,
           opened: @opened, closed: @dropped}
        end
      end

      private

      # In a forked child the connections are the parent's.
      def check_process
        raise ClosedError, "NeverBlock::MySQL was closed" if @closed
        return if @process == Process.pid
        [*@idle, *@parked.keys, *@busy.keys].each(&:discard)
        start_afresh
      end

      def start_afresh
        @process = Process.pid
        @lock = Thread::Mutex.new
        @idle = []
        @busy = {}.compare_by_identity
        @parked = {}.compare_by_identity # the one that was parked first comes first
        @waiting = []
        @size = @opened = @dropped = 0
        @reaped_at = 0.0
        @closed = false
      end

      # @return [Connection, ROOM, nil] nil: one has to wait
      def place = @lock.synchronize { found if @waiting.empty? }

      def found
        return @idle.pop if @idle.any?
        return @parked.shift.first if @size >= @limit && @parked.any?
        return if @size >= @limit
        @size += 1
        ROOM
      end

      # The session that has parked it may ask for its LAST_INSERT_ID() later.
      def usable?(connection)
        saved, connection.saved = connection.saved, nil
        alive = connection.alive?
        saved&.save(connection)
        whole = alive
      rescue Trilogy::Error
        false
      ensure
        drop(connection) unless whole
      end

      def wait
        waiter = Thread::Queue.new
        reap
        found = @lock.synchronize { enqueue(waiter) }
        found = refuse if found == FULL
        found ||= waiter.pop(timeout: @timeout)
        found || raise(PoolTimeout, "no connection was free within #{@timeout} s. #{uses}. Raise connections:, which " \
          "is #{@limit}, or use connections for a shorter time")
      ensure
        leave(waiter) unless found
      end

      def reap
        return unless @reaper && now - @reaped_at > REAP_EVERY
        @reaped_at = now
        @reaper.call
      end

      # The reaper may have made room meanwhile.
      # @return [Connection, ROOM, FULL, nil] nil: it is in line
      def enqueue(waiter)
        free = found if @waiting.empty?
        return free if free
        return FULL if @waiting.size >= @max_waiting
        @waiting << waiter
        nil
      end

      def refuse
        raise BacklogFull, "#{@max_waiting} statements wait for a connection already (max_waiting:). #{uses}"
      end

      # An interrupted one may have been given a connection that it does not use.
      def leave(waiter)
        @lock.synchronize { @waiting.delete_if { |one| one.equal?(waiter) } }
        given = waiter.pop(true) unless waiter.empty?
        return unless given
        return room if given == ROOM
        release(lend(given, nil))
      end

      def open
        connection = @open.call
        @opened += 1
        connection
      ensure
        room unless connection
      end

      # A connection has gone, or could not be opened.
      def room
        @lock.synchronize do
          waiter = @waiting.shift
          waiter ? waiter << ROOM : @size -= 1
        end
      end

      def lend(connection, purpose)
        connection.purpose = purpose
        @lock.synchronize { @busy[connection] = true }
        connection
      end

      def uses
        purposes = @lock.synchronize { @busy.keys }.map(&:purpose)
        return "All are being opened" if purposes.empty?
        words = purposes.tally.first(MOST_NAMED).map { |purpose, count| "#{purpose}#{" (#{count})" if count > 1}" }
        "The connections are used for #{words.join(", ")}"
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
