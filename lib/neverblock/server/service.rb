# frozen_string_literal: true

require_relative "binder"

module NeverBlock
  class Server
    # One serving of an app, from opening the sockets to the end of the last request.
    #
    #   service = Service.new(app, configuration, events)
    #   service.open
    #   service.serve          # inside a loop; returns when it was stopped
    #   service.stop(10)       # meanwhile, from anywhere, signal handlers included
    # @api private
    class Service
      # How often a draining server looks whether it is done, in seconds.
      LOOK = 0.02
      # Seconds in which the loop looks at the kernel at least once.
      TURN = 0.001
      # Seconds that cancelled requests get for their ensures.
      CANCEL_GRACE = 5
      # Seconds that their clients get for reading the answers.
      READ_GRACE = 0.5

      # @return [Array<String>] URIs
      attr_reader :addresses

      # @return [Binder]
      attr_reader :binder

      # @param binder [#sockets] opens the sockets, or has them from elsewhere
      # @param shared [Boolean] whether other processes accept from them too
      # @param yields [Boolean] whether any connection makes room for a new one, not only those that are idle
      def initialize(app, configuration, events, binder: Binder.new(configuration.addresses, backlog: configuration[:backlog]), shared: false, yields: false)
        @app = app
        @configuration = configuration
        @events = events
        @binder = binder
        @shared = shared
        @yields = yields
        @stops = Thread::Queue.new
        @listening = Thread::Queue.new
        @ended = Thread::Queue.new
        @state = :starting
        @keepalive_grace = 0
        @whole = true
      end

      # @return [Symbol] :starting, :serving, :stopping or :ended
      attr_reader :state

      # Opens the sockets; clients queue from here on.
      # @return [void]
      # @raise [BindError]
      def open
        @binder.open
        @addresses = @binder.addresses.freeze
      end

      # Serves until it is stopped. A cancelled caller cancels what runs.
      # @return [void]
      def serve
        NeverBlock.run(exit: :cancel, on_error: @events.error_log.method(:task_failed)) do |scope|
          @events.runners.each { |runner| scope.spawn(name: "log") { runner.run } }
          @core = core = Core.new(@app, settings, @events)
          @binder.sockets.zip(@binder.addresses) { |socket, uri| core.listen(socket, uri.end_with?(Address::PROXY)) }
          @state = :serving
          @listening.close
          wind_down(core, @stops.pop)
        ensure
          leave(core)
        end
      rescue Exception => error # standard:disable Lint/RescueException -- whoever waits for us gets it too
        @error = error
        raise
      ensure
        @state = :ended
        @binder.close unless @handed_over
        @listening.close
        @ended.close
      end

      # Waits until it serves.
      # @return [void]
      # @raise [Exception] what kept it from that
      def wait_until_listening
        @listening.pop
        raise @error if @error
      end

      # Asks it to end.
      # @param timeout [Numeric] seconds for what runs; the shortest that anybody asked for counts
      # @param keepalive_grace [Numeric] seconds of them for which connections may stay that ask nothing: each that asks again is
      #   told that it was the last time, where a close would cross what a client is just sending
      # @return [void]
      def stop(timeout, keepalive_grace: 0)
        @keepalive_grace = keepalive_grace
        @stops << timeout
      end

      # Asks it to end, and to leave its sockets to who follows.
      # @return [void]
      def hand_over(timeout, keepalive_grace: 0)
        @handed_over = true
        stop(timeout, keepalive_grace:)
      end

      # Nobody follows after all: clients that wait for that are refused.
      # @return [void]
      def take_back
        return unless @handed_over
        @handed_over = false
        @binder.close unless @state == :serving
      end

      # While it does, it takes no new connections, which other processes accept from the same sockets.
      # @param flag [Boolean]
      # @return [void]
      def stand_back(flag)
        @core.stand_back(flag) if @state == :serving
      end

      # Waits for its end.
      # @return [Boolean] whether everything came to its own end
      def wait
        @ended.pop
        @whole && !@error
      end

      # @return [Hash{Symbol=>Object}]
      def stats = {state: @state, addresses: @addresses, log_lines_lost: @events.lost, **@core&.stats}

      private

      # In Rack 2 a header that stands several times is one value with line feeds.
      def settings
        @configuration.to_core.merge(shared: @shared, yields: @yields, newlines_separate: defined?(Rack::RELEASE) ? Rack::RELEASE < "3" : false)
      end

      def wind_down(core, timeout)
        @state = :stopping
        begun = now
        deadline = begun + timeout
        core.stop_accepting
        @binder.close unless @handed_over
        sleep TURN # what the kernel has for us is read before its connections count as idle
        until core.idle?
          drained ||= now >= begun + @keepalive_grace && core.drain
          left = deadline - now
          break if left <= 0
          sooner = @stops.pop(timeout: [left, LOOK].min)
          deadline = [deadline, now + sooner].min if sooner
        end
      end

      # What is cancelled answers 503 where it still can.
      def cut(core)
        @whole = false if core.abort("the server is being stopped").positive?
        look_for(CANCEL_GRACE) { core.stats.values_at(:in_flight, :streams, :ready, :queued).sum.zero? }
        look_for(READ_GRACE) { core.idle? }
      end

      # However it ends: nothing is accepted, nothing runs, and the last log lines are written.
      def leave(core)
        return unless core
        cut(core) unless core.idle?
        core.close
      ensure
        @events.runners.each(&:stop)
      end

      def look_for(seconds)
        deadline = now + seconds
        sleep LOOK until yield || now > deadline
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
