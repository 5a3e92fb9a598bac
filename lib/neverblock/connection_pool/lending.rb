# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # Lends the connections of a pool's places: waits in line, opens, and decides at the end of a use whether the next
    # user gets the connection.
    #
    #   place = lending.acquire { lending.wait(5) }   # => a Place of the calling fiber, with a connection
    #   lending.check_in(place, $!, false)
    # @api private
    class Lending
      # Seconds between two searches for places that were not given back.
      RECLAIM_EVERY = 0.25
      private_constant :RECLAIM_EVERY

      # @param places [Places]
      # @param lifecycle [Lifecycle]
      # @param keep_after [#call] whether a connection is fit for another user after an error
      # @param breaker [Breaker, nil]
      def initialize(places, lifecycle, keep_after:, breaker:)
        @places = places
        @lifecycle = lifecycle
        @keep_after = keep_after
        @breaker = breaker
        @opened = @closed = @interrupted = @waits = 0
        @waited = @reclaimed_at = 0.0
      end

      # @param name [String] the pool's, for messages
      def name=(name)
        @name = name
        @refusals = Refusals.new(name, @places)
      end

      # @return [Hash{Symbol=>Object}]
      def stats
        {
          opened: @opened, closed: @closed, interrupted: @interrupted, waits: @waits, wait_seconds: @waited.round(6),
          timeouts: @refusals.timeouts, refused: @refusals.refused, circuit_open: @breaker ? @breaker.open? : false
        }
      end

      # @return [void]
      # @raise [PoolShuttingDownError]
      def check = (@refusals.shut if @places.shut?)

      # @yieldreturn [Place, nil] if none is free
      # @return [Place, nil] with a connection, of the calling fiber
      def acquire
        @breaker&.admit(@name)
        place = @places.take || yield
        prepare(place) if place
        ready = true
        place
      ensure
        unless ready
          place.depth = 0 if place # whatever comes next
          give_back(place || @places.current)
        end
      end

      # Waits in line.
      # @param timeout [Numeric, nil] seconds
      # @return [Place] of the calling fiber, perhaps without a connection
      # @raise [TimeoutError, OverloadError, PoolShuttingDownError]
      def wait(timeout)
        check
        began = Clock.now
        reclaim if @places.waiting.zero? || began - @reclaimed_at > RECLAIM_EVERY
        place = @places.wait(timeout)
        @waits += 1
        @waited += Clock.now - began
        case place
        when Place then place
        when :full then @refusals.full
        else
          check
          (reclaim && @places.take) || @refusals.late(timeout)
        end
      end

      # Ends a `with` whose block has ended.
      # @param place [Place]
      # @return [void]
      def leave(place)
        return unless place.fiber.equal?(Fiber.current) # the block has given it back
        if place.unwound then judge(place)
        elsif @breaker then @breaker.succeeded
        end
        release(place) if place.depth.zero?
      end

      # Ends a `with` whose block has not begun.
      # @param depth [Integer] check-outs before it
      # @return [void]
      def withdraw(depth)
        place = @places.current
        return unless place && place.depth > depth
        place.depth -= 1
        release(place) if place.depth.zero?
      end

      # @param place [Place] of the calling fiber
      # @param error [Exception, nil] that is being handled
      # @param force [Boolean] whether to end all check-outs
      # @return [void]
      def check_in(place, error, force)
        last = force || place.depth == 1
        place.spoilt = true if last && error && !harmless?(error, place)
        place.depth = last ? 0 : place.depth - 1
        release(place) if last
      end

      # Gives the place a new connection.
      # @param place [Place] of the calling fiber
      # @return [Place]
      def replace(place)
        end_one(place)
        connect(place)
        place.spoilt = nil
        place
      end

      # Replaces all connections, or ends the pool.
      # @param closer [#call, nil] closes a connection
      # @param shut [Boolean] whether the pool ends
      # @return [nil]
      def renew(closer, shut:)
        @closer = closer
        @places.renew(shut:).each { |place| end_one(place, closer) }
        nil
      end

      # Closes connections that were idle for long.
      # @param seconds [Numeric]
      # @param closer [#call, nil] closes a connection
      # @return [nil]
      def reap(seconds, closer)
        @places.idle.times do
          place = @places.oldest(seconds) or break
          end_one(place, closer)
        end
        nil
      end

      # @return [void]
      def disown
        @janitor = nil
        @places.disown.each { |place| @lifecycle.disown(place) }
      end

      private

      # An exception has ended a check-out, perhaps when the fiber had its place.
      def give_back(place)
        return unless place
        place.spoilt = true
        release(place)
      end

      def prepare(place)
        return if place.opened_at && @lifecycle.usable?(place)
        end_one(place) if place.opened_at
        connect(place)
      end

      def connect(place)
        generation = @places.generation
        @lifecycle.open(place)
        place.generation = generation
        @opened += 1
      rescue StandardError, Timeout::ExitException => error
        @breaker&.failed(error)
        raise
      end

      # Gives back the places of fibers that have ended without a check-in, and of those whose check-in was interrupted.
      # @return [Boolean] whether there were any
      def reclaim
        @reclaimed_at = Clock.now
        @places.abandoned.each do |place, fiber|
          place.spoilt = true if place.unwound || place.depth > 0
          release(place, fiber)
        end.any?
      end

      # The block was left by an exception, a throw or a kill: is the connection fit for another user?
      def judge(place)
        error = $! if place.unwound == Unwinding::RAISE
        harmless = error && harmless?(error, place)
        place.spoilt = true unless harmless
        place.unwound = nil
        return if harmless
        @interrupted += 1
        @breaker&.failed(error) if error
      end

      def harmless?(error, place)
        StandardError === error && !(Timeout::Error === error) && @keep_after.call(error, place.connection)
      end

      def release(place, fiber = Fiber.current)
        closing = @places.give(place, fiber, keep: !place.spoilt && @lifecycle.lasting?(place))
        end_one(closing, closing.closer || (@closer if closing.generation != @places.generation)) if closing
        watch_idle if @lifecycle.idle_timeout
      end

      def end_one(place, closer = nil)
        @closed += 1
        @lifecycle.close(place, closer)
      end

      # In a loop a task closes connections that are idle for too long. Outside of loops their next user does.
      def watch_idle
        scheduler = Scheduler.current or return
        return if @janitor&.alive? || @places.idle.zero?
        seconds = @lifecycle.idle_timeout
        @janitor = scheduler.transient do
          until @places.idle.zero?
            sleep(seconds)
            reap(seconds, nil)
          end
        end
      rescue ClosedError
        nil # the loop ends
      end
    end
  end
end
