# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Lets requests wait for a connection, with a limit, and raises errors that name the holders of connections.
    #
    #   backlog = Backlog.new(router, lock, connections: 12, limit: 20_000, timeout: 5)
    #   backlog.wait(request)      # until it has a place or is woken to look for one; or raises PoolTimeout
    #
    # Shared statements get places in their order, so one that has waited longer than the limit goes on waiting while
    # others of them get places. An exclusive request gets the connection that was left to share, if no shared statement
    # has come for a while.
    # @api private
    class Backlog
      include MonotonicClock

      # Seconds between two calls of the reaper.
      REAP_EVERY = 0.25

      # Where many wait, one of them looks so often: each only after so many times as long. A thousand that look all the
      # time take the processor from those that have a connection.
      MOST_LOOKS = 8

      # Seconds for which a description of the holders is reused: thousands of requests may time out at once.
      TELL_EVERY = 0.1
      private_constant :REAP_EVERY, :MOST_LOOKS, :TELL_EVERY

      # @return [#call, nil] an adapter's callback, which checks in connections of fibers and threads that have ended
      attr_accessor :reaper

      # @param router [Router] with the queues
      # @param lock [Thread::Mutex] around it
      # @param connections [Integer] maximum number of connections, for messages
      # @param tally [Tally]
      # @param limit [Integer] maximum number of waiting requests, for messages
      # @param timeout [Numeric, nil] seconds that a request waits
      def initialize(router, lock, connections:, limit:, timeout:, tally: Tally.new)
        @router = router
        @lock = lock
        @connections = connections
        @tally = tally
        @limit = limit
        @timeout = timeout
        @processor = ProcessorShare.new
        @reaped_at = @told_at = 0.0
        @reaper = nil
      end

      # @param request [Request] one in a queue of the router
      # @return [void] when it has its `connection`, or must ask the router again
      # @raise [PoolTimeout] if it waited for too long
      # @raise [Exception] the error of opening a connection, if none is open
      def wait(request)
        request.queued
        wait_since(began = @processor.note, request)
      ensure
        @lock.synchronize { @router.withdraw(request) } unless request.connection # before it is queued again
        waited(now - began) if began
      end

      # @return [Float, nil] part of the last seconds in which this process used the processor; nil: not measured yet
      def processor
        @processor.note
        @processor.over(@timeout || Options.default(:timeout))&.round(3)
      end

      # @raise [BacklogFull]
      def full
        @tally.refused += 1
        raise BacklogFull, "#{@limit} wait for a connection already (max_waiting:): #{shortage}"
      end

      private

      def wait_since(began, request)
        deadline = (began + @timeout if @timeout)
        loop do
          reap
          break if request.connection
          woken = request.park(pause(request, deadline))
          break if request.connection
          failure = @lock.synchronize { @router.hopeless?(began) }
          raise failure if failure
          if woken
            break if request.urged? || !@lock.synchronize { @router.queued?(request) } # it must look for a place
          elsif deadline.nil? || now < deadline
            @lock.synchronize { @router.nudge if @router.head?(request) }
          elsif !request.exclusive? && @router.moved_within?(@timeout)
            deadline = now + @timeout
          else
            break give_up(request)
          end
        end
      end

      # @return [Float, nil] seconds until the request must look again
      def pause(request, deadline)
        pause, deferred, waiting = @lock.synchronize { [@router.pause, @router.deferred?(request), @router.waiting] }
        [
          pause, (Router::SHARING_EXPECTED_FOR if deferred), (REAP_EVERY * waiting.clamp(1, MOST_LOOKS) if @reaper),
          deadline && [deadline - now, 0].max
        ].compact.min
      end

      def reap
        return if @reaper.nil? || now - @reaped_at < REAP_EVERY
        @reaped_at = now
        @reaper.call
      end

      def waited(seconds)
        @tally.waits += 1
        @tally.waited += seconds
      end

      # Raises, unless the request has just got a place.
      def give_up(request)
        return unless @lock.synchronize { @router.withdraw(request) }
        @tally.timeouts += 1
        raise PoolTimeout, "no connection was free within #{@timeout} s: #{shortage}"
      end

      def shortage
        return @shortage if now - @told_at < TELL_EVERY
        holders = Holders.new(@lock.synchronize { @router.holdings }).to_a
        @told_at = now
        @shortage = "#{Holders.words(holders, @connections)}. #{remedy}"
      end

      def remedy
        unless @timeout && @processor.saturated?(@timeout)
          return "Raise connections:, hold them for less time, or limit the number of concurrent requests"
        end
        "This process computed for #{(@processor.over(@timeout) * 100).round} % of the last #{@timeout} s: " \
          "the processor is the bottleneck. " \
          "Limit the number of concurrent requests, or run more processes if there are processors for them"
      end
    end
  end
end
