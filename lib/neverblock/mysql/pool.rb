# frozen_string_literal: true

module NeverBlock
  class MySQL
    # The real connections. Each serves one statement, or one virtual connection, at a time. Those that wait for one get
    # it in their order. A virtual connection that does nothing parks its connection: it finds it again, unless another
    # has taken it meanwhile, for lack of an idle one.
    #
    #   pool = Pool.new(connections: 12, timeout: 5, max_waiting: 20_000) { Connection.new(Trilogy.new(host: "db")) }
    #   connection = pool.acquire("a transaction", holder)     # also in holder.held
    #   pool.release(connection, holder)                       # or pool.drop(connection, holder), which closes it
    #
    # Fibers of any loop and threads may use it. In a forked child it is empty.
    #
    # A fiber may wait, and own a lock of Ruby's for which fibers with connections wait: that would never end. It gets
    # one connection more, which is closed afterwards.
    #
    # An exception from outside (a timeout, Thread#raise) arrives in a wait, or when a Ruby method or block ends. So a
    # block under the lock calls only methods in C and attributes: it happens as a whole. What the caller has is in
    # `holder.held` from then on, where an `ensure` finds it: {#abandon}.
    # @api private
    class Pool
      include MonotonicClock

      # One that waits: a fiber of a loop, or a thread.
      class Turn
        # @return [#held]
        attr_reader :holder
        # @return [NeverBlock::Scheduler, nil] nil: it is a thread's
        attr_reader :loop
        # @return [Fiber]
        attr_reader :fiber
        # @return [Thread::Queue, nil] a thread waits there
        attr_reader :queue
        # @param woken [Boolean] whether its wait is over
        attr_writer :woken

        # @param holder [#held]
        def initialize(holder)
          @holder = holder
          @woken = false
          @fiber = Fiber.current
          @loop = Scheduler.current
          @queue = @loop ? nil : Thread::Queue.new
        end

        # @param fibers [Array<Fiber>]
        # @return [Boolean] whether one of them waits for a lock of the calling fiber, as far as its loop sees
        def owed?(fibers) = !@loop.nil? && @loop.locks_awaited(fibers).any?(&:owned?)

        # Waits until {#woken} is set, and the fiber unblocked.
        # @param timeout [Numeric, nil] seconds
        # @return [void]
        def park(timeout)
          return @queue.pop(timeout:) if @queue
          @loop.block(self, timeout) unless @woken
        end
      end

      # Seconds between two calls of the reaper, which looks at all adapters.
      REAP_EVERY = 0.1
      # Seconds after which a fiber that waits looks at its locks. Each time it waits twice as long.
      LOOK_AFTER = 0.1
      # Purposes that a message names.
      MOST_NAMED = 8
      # Held instead of a connection: there is room for another one.
      ROOM = :room
      private_constant :Turn, :REAP_EVERY, :LOOK_AFTER, :MOST_NAMED, :ROOM

      # @param connections [Integer] at most
      # @param timeout [Numeric, nil] seconds to wait for one
      # @param max_waiting [Integer] how many may wait
      # @yieldreturn [Connection] a new one
      def initialize(connections:, timeout:, max_waiting:, &open)
        @limit = connections
        @timeout = timeout
        @max_waiting = max_waiting
        @open = open
        start_afresh
      end

      # @return [#call, nil] called before a wait: takes back connections of fibers that have ended
      attr_writer :reaper

      # @param purpose [String] for messages
      # @param holder [#held, #held=] the user
      # @return [Connection] that the server has not closed, as far as can be seen
      # @raise [PoolTimeout, BacklogFull]
      # @raise [Exception] of the driver, if none can be opened
      def acquire(purpose, holder)
        loop do
          check_process
          take(holder)
          wait(holder) unless holder.held
          return holder.held if usable?(holder, purpose)
        end
      end

      # @return [Connection, nil] an idle or a new one; nil: one would have to wait
      def acquire_at_once(purpose, holder)
        check_process
        loop do
          take(holder)
          return holder.held if holder.held.nil? || usable?(holder, purpose)
        end
      end

      # Gives it to the next that waits.
      # @param connection [Connection] whose session is as new
      # @param holder [#held=]
      # @return [void]
      def release(connection, holder)
        return drop(connection, holder) if @size > @limit
        @lock.synchronize do
          if @busy.delete(connection)
            if (turn = @waiting.shift&.first)
              @busy[connection] = turn.fiber
              turn.holder.held = connection
              turn.woken = true
              turn.loop ? turn.loop.unblock_next(turn, turn.fiber) : turn.queue << true
            else
              @idle << connection
            end
          end
          holder.held = nil
        end
        close if @closed
      end

      # Keeps it for its user, which does nothing with it at present; or gives it to the next waiter.
      # @param connection [Connection] whose session is as new, but for what was saved
      # @param owner [#held=] whose it remains
      # @param saved [SavedInsertId, nil]
      # @return [void]
      def park(connection, owner, saved)
        connection.saved = saved
        @lock.synchronize do
          if @busy.delete(connection)
            if (turn = @waiting.shift&.first)
              @busy[connection] = turn.fiber
              turn.holder.held = connection
              turn.woken = true
              turn.loop ? turn.loop.unblock_next(turn, turn.fiber) : turn.queue << true
            else
              @parked[connection] = owner
            end
          end
          owner.held = nil
        end
      end

      # @param connection [Connection] that was parked
      # @param owner [#held=]
      # @return [Boolean] whether it was still there, and not another's; it is in use again then
      def unpark(connection, owner)
        found = false
        @lock.synchronize do
          if @process == Process.pid && @parked[connection].equal?(owner)
            @parked.delete(connection)
            connection.saved = nil
            @busy[connection] = Fiber.current
            owner.held = connection
            found = true
          end
        end
        found
      end

      # Closes it. Another may be opened.
      # @param connection [Connection]
      # @param holder [#held=]
      # @return [void]
      def drop(connection, holder)
        connection.saved&.lose
        connection.close
      ensure
        @lock.synchronize do
          if @busy.delete(connection)
            @dropped += 1
            pass_room
          end
          holder.held = nil
        end
      end

      # The user was interrupted, perhaps while it was given a connection.
      # @param holder [#held]
      # @return [void]
      def abandon(holder)
        return drop(holder.held, holder) if Connection === holder.held
        @lock.synchronize do
          pass_room if holder.held == ROOM
          holder.held = nil
        end
      end

      # The connections that are open now are closed before their next use.
      # @return [void]
      def outdate = @outdated_at = now

      # @return [Boolean] whether a connection is open
      def any? = @size > 0

      # Closes the idle connections; those in use are closed when their use ends.
      # @return [void]
      def close
        @closed = true
        idle = @lock.synchronize { @idle.pop(@idle.size).each { |connection| @busy[connection] = Fiber.current } }
        idle.each { |connection| drop(connection, Holder.new) }
      end

      # Figures for {MySQL#stats}.
      # @return [Hash{Symbol=>Integer}]
      def stats
        @lock.synchronize do
          {size: @limit, connections: @size, idle: @idle.size, parked: @parked.size,
           busy: @size - @idle.size - @parked.size, waiting: @waiting.size, opened: @opened, closed: @dropped}
        end
      end

      private

      # The next waiter may open a connection, in the place of one that is gone. The lock is held.
      def pass_room
        if @size <= @limit && (turn = @waiting.shift&.first)
          turn.holder.held = ROOM
          turn.woken = true
          turn.loop ? turn.loop.unblock_next(turn, turn.fiber) : turn.queue << true
        else
          @size -= 1
        end
      end

      # In a forked child the connections are the parent's.
      def check_process
        raise ClosedError, "this NeverBlock::MySQL was closed" if @closed
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
        @waiting = {}.compare_by_identity # first come, first served
        @size = @opened = @dropped = 0
        @reaped_at = @outdated_at = 0.0
        @closed = false
      end

      # @param turn [Turn, nil] to be put in line if there is nothing to take
      # @return [Boolean] whether too many wait
      def take(holder, turn = nil)
        full = false
        @lock.synchronize do
          if @waiting.empty? && (connection = @idle.pop)
            @busy[connection] = Fiber.current
            holder.held = connection
          elsif @waiting.empty? && @size < @limit
            @size += 1
            holder.held = ROOM
          elsif @waiting.empty? && (parked = @parked.shift)
            @busy[parked[0]] = Fiber.current
            holder.held = parked[0]
          elsif turn
            (full = @waiting.size >= @max_waiting) || @waiting[turn] = true
          end
        end
        full
      end

      # The reaper may make room.
      def wait(holder)
        reap
        turn = Turn.new(holder)
        if take(holder, turn)
          raise BacklogFull, "#{@max_waiting} statements wait for a connection already (max_waiting:). #{uses}"
        end
        await(turn, holder)
        return if holder.held
        @lock.synchronize { @waiting.delete(turn) }
        return if holder.held
        raise PoolTimeout, "no connection was free within #{@timeout} s. #{uses}. Raise connections:, which is " \
          "#{@limit}, or use connections for a shorter time"
      ensure
        @lock.synchronize { @waiting.delete(turn) } if turn && holder.held.nil?
      end

      def await(turn, holder)
        pause = LOOK_AFTER
        deadline = @timeout ? now + @timeout : Float::INFINITY
        until holder.held || (left = deadline - now) <= 0
          turn.park([pause, left].min)
          pause *= 2
          exceed(turn, holder) if !holder.held && turn.owed?(@lock.synchronize { @busy.values })
        end
      end

      # Beyond the limit.
      def exceed(turn, holder)
        @lock.synchronize do
          if @waiting.delete(turn) # else it has got one
            @size += 1
            holder.held = ROOM
          end
        end
      end

      def reap
        return unless @reaper && now - @reaped_at > REAP_EVERY
        @reaped_at = now
        @reaper.call
      end

      # Opens a connection, if it is room that is held. The session that has parked one may ask for its LAST_INSERT_ID()
      # later.
      def usable?(holder, purpose)
        fill(holder) if holder.held == ROOM
        connection = holder.held
        connection.purpose = purpose
        return false unless connection.opened_at > @outdated_at && connection.alive?
        connection.saved&.save(connection)
        connection.saved = nil
        whole = true
      rescue Trilogy::Error
        raise unless connection
        false
      ensure
        drop(connection, holder) if connection && !whole
      end

      def fill(holder)
        connection = @open.call
        @lock.synchronize do
          @busy[connection] = Fiber.current
          holder.held = connection
        end
        @opened += 1
      ensure
        abandon(holder) unless connection
      end

      def uses
        purposes = @lock.synchronize { @busy.keys }.map(&:purpose)
        return "All are being opened" if purposes.empty?
        words = purposes.tally.first(MOST_NAMED).map { |purpose, count| "#{purpose}#{" (#{count})" if count > 1}" }
        "The connections are used for #{words.join(", ")}"
      end
    end
  end
end
