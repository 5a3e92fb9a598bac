# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"
require_relative "binder"

module NeverBlock
  class Server
    # Serves an app once, from opening the sockets to the end of the last request.
    #
    #   service = Service.new(app, configuration, events)
    #   service.open
    #   service.serve          # inside a loop; returns after stop
    #   service.stop(10)       # from any thread or signal handler
    # @api private
    class Service
      include MonotonicClock

      # Seconds between two checks whether draining has ended.
      LOOK = 0.02
      # Seconds in which the loop has polled the kernel at least once.
      TURN = 0.001
      # Seconds that cancelled requests get for their ensure blocks.
      CANCEL_GRACE = 5
      # Seconds that their clients get to read the responses.
      READ_GRACE = 0.5

      # @return [Array<String>] URIs
      attr_reader :addresses

      # @return [Binder]
      attr_reader :binder

      # @param binder [#sockets] opens the sockets, or has inherited them
      # @param balance [Balance, nil] of the processes that accept from the same sockets; nil: only this one does
      # @param balance_entry [Integer, nil] this process' own; nil: it has none
      # @param yields [Boolean] whether a new connection may evict any other one, not only idle ones
      def initialize(app, configuration, events,
        binder: Binder.new(configuration.addresses, backlog: configuration[:backlog]), balance: nil, balance_entry: nil,
        yields: false)
        @app = app
        @configuration = configuration
        @events = events
        @binder = binder
        @balance = balance
        @balance_entry = balance_entry
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

      # Opens the sockets; from here on the kernel queues clients.
      # @return [void]
      # @raise [BindError]
      def open
        @binder.open
        @addresses = @binder.addresses.freeze
      end

      # Serves until it is stopped. If the caller is cancelled, running requests are cancelled too.
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
      rescue Exception => error # standard:disable Lint/RescueException -- wait_until_listening raises it too
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
      # @raise [Exception] why it does not
      def wait_until_listening
        @listening.pop
        raise @error if @error
      end

      # Asks it to end.
      # @param timeout [Numeric] seconds for running requests; of several calls the earliest end counts
      # @param keepalive_grace [Numeric] seconds, within the timeout, for which idle connections stay open. The response
      #   to the next request on them says `Connection: close`; closing at once could cross a request that is on its way
      # @return [void]
      def stop(timeout, keepalive_grace: 0)
        @keepalive_grace = keepalive_grace
        @stops << timeout
      end

      # Asks it to end, and to leave its sockets open for the program that follows.
      # @return [void]
      def hand_over(timeout, keepalive_grace: 0)
        @handed_over = true
        stop(timeout, keepalive_grace:)
      end

      # Undoes {#hand_over}: no program follows, so the sockets are closed, and waiting clients are refused.
      # @return [void]
      def take_back
        return unless @handed_over
        @handed_over = false
        @binder.close unless @state == :serving
      end

      # Stops accepting connections, or begins again; other processes accept from the same sockets.
      # @param flag [Boolean]
      # @return [void]
      def stand_back(flag)
        @core.stand_back(flag) if @state == :serving
      end

      # Waits for its end.
      # @return [Boolean] whether it ended without an error, and cancelled no request
      def wait
        @ended.pop
        @whole && !@error
      end

      # @return [Hash{Symbol=>Object}]
      def stats = {state: @state, addresses: @addresses, log_lines_lost: @events.lost, **@core&.stats}

      private

      # In Rack 2 a repeated header is one value with line feeds.
      def settings
        @configuration.to_core.merge(balance: @balance, balance_entry: @balance_entry, yields: @yields,
          newlines_separate: defined?(Rack::RELEASE) ? Rack::RELEASE < "3" : false)
      end

      def wind_down(core, timeout)
        @state = :stopping
        begun = now
        deadline = begun + timeout
        core.stop_accepting(!@balance && !@handed_over && @binder.own?)
        @binder.close unless @handed_over
        sleep TURN # bytes that have arrived are read before connections count as idle
        until core.idle?
          drained ||= now >= begun + @keepalive_grace && core.drain # false: new connections are left
          left = deadline - now
          break if left <= 0
          sooner = @stops.pop(timeout: [left, LOOK].min)
          deadline = [deadline, now + sooner].min if sooner
        end
      end

      # Cancels running requests. Where no response has begun, the client gets a 503.
      def cut(core)
        @whole = false if core.abort("the server is being stopped").positive?
        look_for(CANCEL_GRACE) { core.stats.values_at(:in_flight, :streams, :ready, :queued).sum.zero? }
        look_for(READ_GRACE) { core.idle? }
      end

      # However serving has ended: accepts nothing more, cancels what still runs, and writes the last log lines.
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
    end
  end
end
