# frozen_string_literal: true

require_relative "memory"
require_relative "runtime_stats"

module NeverBlock
  class Server
    # Tells others how a server in this process is: from its loop it hears each second that it turns.
    #
    #   heartbeat = Heartbeat.new(server, 60, loads) { |signal| … }
    #   scope.spawn { heartbeat.run(systemd) }
    #   heartbeat.live?    # from another thread
    # @api private
    class Heartbeat
      INTERVAL = 1.0
      # Seconds in which a loop that turns has opened its logs again.
      LIMIT = 5

      # @param server [Server]
      # @param limit [Numeric, nil] seconds of silence after which the loop counts as standing still
      # @param loads [Loads]
      # @yieldparam signal [String] what an operator asks for
      def initialize(server, limit, loads, &signalled)
        @server = server
        @loads = loads
        @limit = limit
        @signalled = signalled
        @began = @heard = now
        @reopenings = Thread::Queue.new
      end

      # In the loop.
      # @param systemd [Systemd]
      # @return [void]
      def run(systemd)
        told = 0
        loop do
          @heard = now
          told = @heard if systemd.watchdog && @heard - told >= systemd.watchdog - INTERVAL && systemd.tell("WATCHDOG=1")
          @reopenings.pop(timeout: INTERVAL)&.push(@server.reopen_logs)
        end
      end

      # @return [void]
      def draining!
        @draining = true
      end

      # @return [Boolean]
      def draining? = @draining == true

      # @return [Boolean]
      def live? = @limit.nil? || now - @heard < @limit

      # @return [Boolean] whether requests should be sent
      def ready? = !@draining && live? && @server.stats[:state] == :serving

      # @return [Hash{Symbol=>Object}] as the supervisor's, with this process for the worker
      def stats
        stats = @server.stats
        worker = {number: 0, pid: Process.pid, state: stats[:state], age: (now - @began).round(1), stats: {**stats.except(:addresses, :state), memory: Memory.own, runtime:}}
        state = (live? || stats[:state] != :serving) ? stats[:state] : :down
        {state: @draining ? :draining : state, pid: Process.pid, version: VERSION, ruby: RUBY_VERSION, engine: NeverBlock.engine.name,
         addresses: stats[:addresses], directory: Dir.pwd, load: @loads.to_h, workers: [worker]}
      end

      # Has the program started anew, which ends this one where it can be.
      # @param name [String] USR1 or USR2
      # @return [Array(Symbol, String), nil] Loads#ask
      def load_anew(name)
        answer = @loads.ask
        signalled(name)
        answer.pop
      end

      # @return [Array(Symbol, String), nil]
      def last_load = @loads.join(false).pop

      # Has the loop open its logs again.
      # @return [Array<String>] what could not be
      def reopen
        failures = Thread::Queue.new
        @reopenings << failures
        failures.pop(timeout: LIMIT) || ["the server has not answered within #{LIMIT} s: its loop stands still"]
      end

      # @param name [String]
      # @return [void]
      def signalled(name) = @signalled.call(name)

      private

      # The error log is there once the server has started.
      def runtime
        @runtime ||= @server.events && RuntimeStats.new(@server.events.error_log)
        @runtime ? @runtime.read : {}
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
