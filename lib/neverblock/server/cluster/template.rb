# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"
require_relative "../events"
require_relative "../places"
require_relative "channel"
require_relative "sockets"
require_relative "worker"

module NeverBlock
  class Server
    module Cluster
      # The process that loads the app once and forks workers when the supervisor asks. It serves nothing and starts no
      # loop, so that a worker starts with the loaded app and nothing else.
      #
      #   Template.new(channel, sockets, configuration) { load_app }.run   # => true
      # @api private
      class Template
        include MonotonicClock

        # Version of the messages between the processes: another version of this gem may have others.
        PROTOCOL = 2
        # Longest delay in seconds until a worker's end is noticed.
        LOOK = 0.2
        # Seconds that workers get beyond shutdown_timeout after the supervisor has ended.
        GRACE = 8
        # Signals that only the supervisor acts on; a terminal sends some of them to all processes.
        SIGNALS = %w[INT TERM HUP USR1 USR2].freeze
        # The same, but without a handler they stop a process that uses its terminal in the background.
        OF_TERMINALS = %w[TTIN TTOU].freeze

        # Handlers that do nothing: child processes of the app would inherit "IGNORE".
        # @return [void]
        def self.leave_signals_to_the_supervisor
          [*SIGNALS, *(OF_TERMINALS unless $stdin.tty?)].each { |name| trap(name) {} }
        end

        # @param channel [Channel] to the supervisor
        # @param sockets [Sockets]
        # @param configuration [Configuration]
        # @yieldreturn [#call] the app
        def initialize(channel, sockets, configuration, &load)
          @channel = channel
          @sockets = sockets
          @configuration = configuration
          @load = load
          @workers = {} # their entries in the balance
          @balance = Balance.new
          @supervisor = Process.ppid
        end

        # Runs until the supervisor dismisses it, or has ended, and its last worker has ended too. After the dismissal
        # its sockets are closed: clients would wait for an accept that never comes.
        # @return [Integer] the exit status
        def run
          Process.setproctitle("neverblock #{VERSION}: template")
          Template.leave_signals_to_the_supervisor
          trap("QUIT") { (@events&.error_log || ErrorLog.early).backtraces(Thread.main, []) }
          return 1 unless load_app
          until @dismissed && @workers.empty?
            @latest ? sleep(LOOK) : @channel.io.wait_readable(LOOK) && process_message
            reap
            kill_the_last if @latest && now > @latest
          end
          0
        end

        private

        def load_app
          waited_for = Thread.new { end_when_dismissed }
          @app = @load.call
          @configuration.call_hooks(:before_fork)
          waited_for.kill.join
          # Workers inherit open logs, so they start even if a log's folder has gone.
          @events = Events.new(@configuration)
          GC.compact # pages that are shared with the workers stay shared for longer
          tell(event: "loaded", protocol: PROTOCOL)
        rescue SystemExit => error
          call = (error.message == "exit") ? "exit" : "abort: #{error.message}"
          place = " (#{error.backtrace.first})" if error.backtrace
          tell(event: "failed", message: "the app has called #{call}#{place}")
          raise
        rescue Exception => error # standard:disable Lint/RescueException -- the supervisor tells any
          tell(event: "failed", message: (Error === error) ? error.message : LogText.full(error))
          false
        end

        # Before the app is loaded the only message to a template is its dismissal. It exits at once to free the
        # sockets.
        def end_when_dismissed
          @channel.io.wait_readable
          exit!(false)
        end

        def process_message
          message, ios = @channel.receive
          case message && message[:do]
          when "fork" then start(message[:slot], ios.first)
          when "reopen" then @events.reopen
          when "rehearse" then tell(event: "rehearsed", failures: rehearse(message[:held]))
          else
            @dismissed = true
            @sockets.close
            outlive unless message
          end
        end

        # Tries what the supervisor of the new configuration would open. A single process can't take over workers.
        def rehearse(held)
          if @configuration.worker_count.zero?
            return ["workers 0 makes it a single process, which can't replace a supervisor: stop and start it"]
          end
          Places.new(@configuration).rehearse(**held)
        end

        # The supervisor has ended. The workers notice it too, and finish.
        def outlive
          @latest = now + @configuration[:shutdown_timeout] + GRACE
          return if @workers.empty?
          @events.error_log.error("the supervisor [#{@supervisor}] has gone: " \
            "#{@workers.size} of its workers finish their requests and end; " \
            "#{GRACE} s after shutdown_timeout the rest is killed")
        end

        # Without a supervisor only the template can kill workers that do not end.
        def kill_the_last
          @workers.each_key do |pid|
            Process.kill(:KILL, pid)
          rescue Errno::ESRCH
            nil # it has just ended
          end
        end

        def start(slot, io)
          entry = @balance.enter
          pid = fork do
            @channel.close
            io.autoclose = false # the channel owns the descriptor from here on
            worker = Worker.new(slot, Channel.inherited(io.fileno), @sockets, @app, @configuration, @events,
              balance: @balance, balance_entry: entry)
            exit(worker.run ? true : false)
          end
          io.close
          @workers[pid] = entry
          tell(event: "forked", slot:, pid:)
        rescue SystemCallError => error
          @balance.leave(entry)
          io.close # the supervisor sees the channel's end
          tell(event: "trouble", message: "worker #{slot} can't be started: #{error.message}")
        end

        def reap
          @workers.reject! do |pid, entry|
            ended, status = look(pid)
            next unless ended
            @balance.leave(entry)
            tell(event: "ended", pid:, status:)
            true
          end
        end

        # @return [Array(Boolean, String)] whether it has ended, and its status; nil: the app has reaped it
        def look(pid)
          _, status = Process.wait2(pid, Process::WNOHANG)
          [!status.nil?, status&.to_s]
        rescue Errno::ECHILD
          [true, nil]
        end

        def tell(**message) = @channel.send(message)
      end
    end
  end
end
