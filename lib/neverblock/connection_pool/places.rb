# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # The places of a pool: which are idle, which fibers hold one, and which wait in line. It opens and closes nothing.
    #
    #   place = places.take || places.wait(5)   # => a Place of the calling fiber, with or without a connection
    #   places.give(place, Fiber.current, keep: true)          # => nil: the next in line has it, or it is idle
    #
    # An exception from outside (Thread#raise, a timeout) arrives when a Ruby method or block ends, in a loop, or in a
    # wait. So a block under the lock has no loop and calls only methods in C and attributes: it happens as a whole. The
    # holder is noted in there, for an `ensure` to find.
    # @api private
    class Places
      # A fiber or thread in line. The class's name appears in {NeverBlock.tasks}.
      class Turn < Thread::Queue
        # @return [Fiber, Thread] the waiter
        attr_reader :fiber, :thread
        # @return [Place, nil] what it was given
        attr_accessor :place

        def initialize
          super
          @fiber = Fiber.current
          @thread = Thread.current
        end
      end
      private_constant :Turn

      # @param size [Integer] maximum number of places
      # @param most [Integer] maximum number of waiters
      def initialize(size, most)
        @size = size
        @most = most
        @key = :"neverblock_connection_pool_#{object_id}"
        @lock = Thread::Mutex.new
        @generation = 0
        @shut = false
        clear
      end

      # @return [Integer] maximum number of places
      attr_reader :size
      # @return [Integer] maximum number of waiters
      attr_reader :most
      # @return [Integer] how often all connections were replaced
      attr_reader :generation

      # @return [Boolean]
      def shut? = @shut

      # @return [Integer]
      def idle = @idle.size

      # @return [Integer]
      def held = @held.size

      # @return [Integer]
      def waiting = @waiting.size

      # @return [Array<Place>]
      def holdings = @lock.synchronize { @held.keys }

      # @return [Array<Object>] all connections
      def connections
        @lock.synchronize { @idle + @held.keys }.filter_map { |place| place.connection if place.opened_at }
      end

      # The server's handlers serve many requests on one fiber, and wipe its locals in between: so a request never finds
      # the place of an earlier one.
      # @return [Place, nil] the calling fiber's, unless its check-in has begun
      def current
        place = Thread.current[@key]
        place if place && place.depth > 0 && place.fiber.equal?(Fiber.current)
      end

      # While fibers are in line no place is free: {#give} hands each to the first of them.
      # @param turn [Turn, nil] to be put in line if there is no place
      # @return [Place, :full, nil] the calling fiber's from now on; nil: none is free
      def take(turn = nil)
        thread, fiber, place = Thread.current, Fiber.current, nil
        @lock.synchronize do
          next if @shut
          place = @idle.pop || (Place.new if @held.size < @size)
          if place
            place.fiber = fiber
            place.thread = thread
            place.depth = 1
            place.since = Clock.now
            @held[place] = thread[@key] = place
          elsif turn
            (@waiting.size < @most) ? @waiting[turn] = true : place = :full
          end
        end
        place
      end

      # Waits in line.
      # @param timeout [Numeric, nil] seconds
      # @return [Place, :full, nil] the calling fiber's from now on; nil: not in time, or the pool was shut down
      def wait(timeout)
        turn = Turn.new
        place = take(turn)
        return place if place || @shut
        turn.pop(timeout:)
        @lock.synchronize { @waiting.delete(turn) } unless turn.place
        place = Thread.current[@key] = turn.place
      ensure
        leave(turn) if turn && place.nil?
      end

      # Ends a use. The place goes to the first in line.
      # @param place [Place]
      # @param fiber [Fiber] the holder
      # @param keep [Boolean] whether its connection stays in use
      # @return [Place, nil] the place, if its connection is to be closed now
      def give(place, fiber, keep:)
        closing = nil
        @lock.synchronize do
          next unless place.fiber.equal?(fiber) && @held.delete(place)
          place.fiber = nil
          keep &&= !@shut && place.opened_at && place.generation == @generation
          closing = place unless keep
          now = Clock.now
          if (turn = @waiting.shift&.first)
            place = Place.new unless keep
            place.fiber = turn.fiber
            place.thread = turn.thread
            place.depth = 1
            place.since = now
            turn.place = @held[place] = place
            turn.push(true)
          elsif keep
            place.idle_since = now
            @idle.push(place)
          end
        end
        closing if closing&.opened_at || closing&.connection # opened, if the opener was interrupted since
      end

      # Takes out the connection that has been idle for the longest.
      # @param seconds [Numeric]
      # @return [Place, nil] one that has been idle for as long
      def oldest(seconds)
        latest = Clock.now - seconds
        @lock.synchronize { @idle.shift if @idle.first && @idle.first.idle_since <= latest }
      end

      # Called by a fiber that holds none: a place of the same fiber is of an earlier request on it.
      # @return [Array<Array(Place, Fiber)>] those that will not be given back: their fibers, or requests, have ended
      #   without a check-in, or their check-ins were interrupted
      def abandoned
        own = Fiber.current
        holdings.map { |place| [place, place.fiber] }
          .select { |place, fiber| fiber && (place.depth.zero? || fiber.equal?(own) || !fiber.alive?) }
      end

      # Takes out the idle connections. Those in use are not kept at their check-in.
      # @param shut [Boolean] whether the pool ends
      # @return [Array<Place>]
      def renew(shut:)
        idle, waiters = [], []
        @lock.synchronize do
          @generation += 1
          @shut ||= shut
          idle, @idle = @idle, idle
          waiters, @waiting = @waiting.keys, {}.compare_by_identity if shut
        end
        waiters.each { |turn| turn.push(true) }
        idle
      end

      # In a forked child: forgets the parent's connections and waiters.
      # @return [Array<Place>]
      def disown
        places = [*@idle, *@held.keys].each { |place| place.fiber = nil }
        clear
        places
      end

      private

      def clear
        @idle = [] # the last one was used last
        @held = {}.compare_by_identity
        @waiting = {}.compare_by_identity # first come, first served
      end

      # An exception has ended the wait, perhaps after a place was handed over.
      def leave(turn)
        @lock.synchronize { @waiting.delete(turn) }
        place = turn.place or return
        give(place, turn.fiber, keep: true)
      end
    end
  end
end
