# frozen_string_literal: true

require_relative "../runtime/monotonic_clock"
require_relative "commands"
require_relative "memory"
require_relative "runtime_stats"

module NeverBlock
  class Server
    # Tells probes and the control socket about a server in this process. Its loop reports each second that it is not
    # blocked.
    #
    #   heartbeat = Heartbeat.new(server, 60, loads) { |signal| … }
    #   scope.spawn { heartbeat.run(systemd) }
    #   heartbeat.live?    # from another thread
    # @api private
    class Heartbeat
      include MonotonicClock

      INTERVAL = 1.0
      # States of a server in which a worker counts as leaving; all others are a worker's too.
      LEAVING = %i[stopping ended].freeze
      # Seconds for the loop to open its logs again.
      LIMIT = 5

      # @param server [Server]
      # @param limit [Numeric, nil] seconds without a report after which the loop counts as blocked
      # @param loads [Loads]
      # @param sidecars [Array<Cluster::Sidecar>]
      # @yieldparam signal [String] what an operator asks for
      def initialize(server, limit, loads, sidecars = [], &signalled)
        @server = server
        @loads = loads
        @sidecars = sidecars
        @limit = limit
        @signalled = signalled
        @began = @heard = now
        @directory = Dir.pwd # which may be gone later
        @reopenings = Thread::Queue.new
      end

      # Reports; runs inside the loop.
      # @param systemd [Systemd]
      # @return [void]
      def run(systemd)
        told = 0
        loop do
          @heard = now
          if systemd.watchdog && @heard - told >= systemd.watchdog - INTERVAL && systemd.tell("WATCHDOG=1")
            told = @heard
          end
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

      # @return [Boolean] whether a balancer should send requests
      def ready? = !@draining && live? && @server.stats[:state] == :serving

      # @return [Hash{Symbol=>Object}] as the supervisor's, with this process as the only worker
      def stats
        stats = @server.stats
        own = LEAVING.include?(stats[:state]) ? :leaving : stats[:state]
        worker = {number: 0, pid: Process.pid, state: own, age: (now - @began).round(1),
                  stats: {**stats.except(:addresses, :state), memory: Memory.own, runtime:}}
        state = (live? || stats[:state] != :serving) ? stats[:state] : :down
        {state: @draining ? :draining : state,
         pid: Process.pid, version: VERSION, ruby: RUBY_VERSION, engine: NeverBlock.engine.name,
         addresses: stats[:addresses], directory: @directory, load: @loads.to_h, workers: [worker],
         sidecars: @sidecars.map(&:to_h)}
      end

      # Asks for a restart, which replaces this program if it succeeds, and waits for the result.
      # @param name [String] USR1 or USR2
      # @return [Array(Symbol, String), nil] Loads#ask
      def load_anew(name)
        answer = @loads.ask
        signalled(name)
        answer.pop
      end

      # @return [Array(Symbol, String), nil]
      def last_load = @loads.join(false).pop

      # Lets the loop open its logs again.
      # @return [Array<String>] files and addresses that could not be opened
      def reopen
        failures = Thread::Queue.new
        @reopenings << failures
        failures.pop(timeout: LIMIT) || ["the server has not answered within #{LIMIT} s: its loop is blocked"]
      end

      # @param name [String] a command of the app
      # @param argument [String]
      # @return [Array<Array(String, Boolean, String)>] as the supervisor's: the worker, whether it has succeeded, and
      #   its text
      def command(name, argument) = [["worker 0", *Commands.call(name, argument)]]

      # @param name [String]
      # @return [void]
      def signalled(name) = @signalled.call(name)

      private

      # The error log exists once the server has started.
      def runtime
        @runtime ||= @server.events && RuntimeStats.new(@server.events.error_log)
        @runtime ? @runtime.read : {}
      end
    end
  end
end
