# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The wait of a request for a connection: how long it may last, what ends it, and what its end says.
    #
    #   backlog = Backlog.new(router, lock, connections: 12, limit: 20_000, timeout: 5)
    #   backlog.wait(request)      # until it has a place, is told to look for one itself, or raises PoolTimeout
    #
    # Shared statements are served one after the other: one that waits for longer than the limit goes on while others get their
    # places. A request for a connection alone may have what was left to share, when nothing has shared for a while.
    # @api private
    class Backlog
      # Requests that may wait. Beyond, memory goes for what is not going to be waited for.
      MAX_WAITING = 20_000

      # Seconds that one waits at most.
      TIMEOUT = 5

      # Seconds between two looks for holders that have ended.
      REAP_EVERY = 0.25

      # Seconds for which what is said of the holders holds: of thousands that wait, thousands may be told at once.
      TELL_EVERY = 0.1
      private_constant :REAP_EVERY, :TELL_EVERY

      # @return [#call, nil] what gives back connections whose holders have ended, as far as an adapter above knows of such
      attr_accessor :reaper

      # @param router [Router] with the queues
      # @param lock [Thread::Mutex] around it
      # @param connections [Integer] that there may be, for messages
      # @param tally [Tally]
      # @param limit [Integer] requests that the queues take, for messages
      # @param timeout [Numeric, nil] seconds
      def initialize(router, lock, connections:, tally: Tally.new, limit: MAX_WAITING, timeout: TIMEOUT)
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

      # @param request [Request] in one of the queues
      # @return [void] when it has its `connection`, or is to ask the router again
      # @raise [PoolTimeout] after the limit
      # @raise [Exception] why no connection could be opened, where there is none
      def wait(request)
        request.queued
        wait_since(began = @processor.note, request)
      ensure
        @lock.synchronize { @router.withdraw(request) } unless request.connection # whatever ends the wait, nothing is in the queue twice
        waited(now - began) if began
      end

      # @return [Float, nil] how much of the last seconds this process computed; nil: it has not been looked at for so long
      def processor
        @processor.note
        @processor.over(@timeout || TIMEOUT)&.round(3)
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
            break unless @lock.synchronize { @router.first?(request) } # told to look
          elsif deadline.nil? || now < deadline
            @lock.synchronize { @router.nudge if @router.head?(request) }
          elsif !request.exclusive? && @router.moved_within?(@timeout)
            deadline = now + @timeout
          else
            break give_up(request)
          end
        end
      end

      # @return [Float, nil] seconds until it is to look again
      def pause(request, deadline)
        pause, deferred = @lock.synchronize { [@router.pause, @router.deferred?(request)] }
        [pause, (Router::SHARING_EXPECTED_FOR if deferred), (REAP_EVERY if @reaper), deadline && [deadline - now, 0].max].compact.min
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

      # Unless it has just got a place.
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
        return "Raise connections:, hold them for less long, or bound what runs at a time" unless @timeout && @processor.saturated?(@timeout)
        "This process computed for #{(@processor.over(@timeout) * 100).round} % of the last #{@timeout} s: the processor is what is short. Bound what runs at a " \
          "time, or run more processes if there are processors for them"
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
