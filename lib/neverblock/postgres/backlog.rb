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
      LIMIT = 20_000

      # Seconds that one waits at most.
      TIMEOUT = 5

      # Seconds between two looks for holders that have ended.
      REAP_EVERY = 0.25
      private_constant :REAP_EVERY

      # @return [#call, nil] what gives back connections whose holders have ended, as far as an adapter above knows of such
      attr_accessor :reaper

      # @param router [Router] with the queues
      # @param lock [Thread::Mutex] around it
      # @param connections [Integer] that there may be, for messages
      # @param limit [Integer] requests that the queues take, for messages
      # @param timeout [Numeric, nil] seconds
      def initialize(router, lock, connections:, limit: LIMIT, timeout: TIMEOUT)
        @router = router
        @lock = lock
        @connections = connections
        @limit = limit
        @timeout = timeout
        @processor = ProcessorShare.new
        @reaped_at = 0.0
        @reaper = nil
      end

      # @param request [Request] in one of the queues
      # @return [void] when it has its `backend`, or is to ask the router again
      # @raise [PoolTimeout] after the limit
      # @raise [Exception] why no connection could be opened, where there is none
      def wait(request)
        request.queued
        @processor.note
        wait_since(now, request)
      ensure
        @lock.synchronize { @router.withdraw(request) } unless request.backend # whatever ends the wait, nothing is in the queue twice
      end

      # @raise [BacklogFull]
      def full = raise(BacklogFull, "#{@limit} wait for a connection already (backlog:): #{shortage}")

      private

      def wait_since(began, request)
        deadline = (began + @timeout if @timeout)
        loop do
          reap
          break if request.backend
          woken = request.park(pause(request, deadline))
          break if request.backend
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
        pause, spared = @lock.synchronize { [@router.pause, @router.spared?(request)] }
        [pause, (Router::LATELY if spared), (REAP_EVERY if @reaper), deadline && [deadline - now, 0].max].compact.min
      end

      def reap
        return if @reaper.nil? || now - @reaped_at < REAP_EVERY
        @reaped_at = now
        @reaper.call
      end

      # Unless it has just got a place.
      def give_up(request)
        raise PoolTimeout, "no connection was free within #{@timeout} s: #{shortage}" if @lock.synchronize { @router.withdraw(request) }
      end

      def shortage
        holders = @lock.synchronize { @router.holders }
        words = holders.map(&:to_s)
        "#{words.size} of #{@connections} are held (#{words.join("; ")}). #{remedy}"
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
