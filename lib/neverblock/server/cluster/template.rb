# frozen_string_literal: true

require_relative "../events"
require_relative "../places"
require_relative "channel"
require_relative "sockets"
require_relative "worker"

module NeverBlock
  class Server
    module Cluster
      # The process that loads the app once and forks the workers, at the supervisor's word. It serves nothing and starts
      # no loop, so that a worker begins with the app and nothing else.
      #
      #   Template.new(channel, sockets, configuration) { load_app }.run   # => true
      # @api private
      class Template
        # Of the messages between the processes: those of another version of this gem may differ.
        PROTOCOL = 2
        # Seconds after which a worker's end is noticed at the latest.
        LOOK = 0.2
        # Seconds that workers get beyond the time for their requests, where the supervisor has gone.
        GRACE = 8
        # For the supervisor alone, which says what follows; a terminal sends them to all.
        SIGNALS = %w[INT TERM HUP USR1 USR2].freeze

        # @param channel [Channel] to the supervisor
        # @param sockets [Sockets]
        # @param configuration [Configuration]
        # @yieldreturn [#call] the app
        def initialize(channel, sockets, configuration, &load)
          @channel = channel
          @sockets = sockets
          @configuration = configuration
          @load = load
          @workers = []
          @supervisor = Process.ppid
        end

        # Works until the supervisor has enough of it, or has gone, and no worker is left. It listens to nobody then: clients
        # would wait in vain.
        # @return [Integer] the exit status
        def run
          Process.setproctitle("neverblock #{VERSION}: template")
          SIGNALS.each { |name| trap(name) {} }
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
          @events = Events.new(@configuration) # workers inherit the open logs: one whose folder has gone since keeps none from starting
          GC.compact # what the workers share stays shared for longer
          tell(event: "loaded", protocol: PROTOCOL)
        rescue SystemExit => error
          tell(event: "failed", message: "the app has called #{(error.message == "exit") ? "exit" : "abort: #{error.message}"}#{" (#{error.backtrace.first})" if error.backtrace}")
          raise
        rescue ScriptError, StandardError => error
          tell(event: "failed", message: (Error === error) ? error.message : error.full_message(highlight: false, order: :top))
          false
        end

        # Before the app is loaded nothing else is said to a template, and the sockets are to be free.
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

        # A single process could not take over workers.
        def rehearse(held)
          return ["workers 0 makes it one process, which takes no supervisor's place: stop it, and start it anew"] if @configuration.worker_count.zero?
          Places.new(@configuration).rehearse(**held)
        end

        # The supervisor has gone: the workers see that too.
        def outlive
          @latest = now + @configuration[:shutdown_timeout] + GRACE
          return if @workers.empty?
          @events.error_log.error("the supervisor [#{@supervisor}] has gone: #{@workers.size} of its workers finish their requests and end; " \
            "#{GRACE} s after shutdown_timeout what is left is killed")
        end

        # With the supervisor there is nobody who does it else.
        def kill_the_last
          @workers.each { |pid| Process.kill(:KILL, pid) }
        end

        def start(slot, io)
          pid = fork do
            @channel.close
            io.autoclose = false # the channel's from here on
            worker = Worker.new(slot, Channel.inherited(io.fileno), @sockets, @app, @configuration, @events)
            exit(worker.run ? true : false)
          end
          io.close
          @workers << pid
          tell(event: "forked", slot:, pid:)
        rescue SystemCallError => error
          io.close # the supervisor sees the worker's end
          tell(event: "trouble", message: "worker #{slot} can't be started: #{error.message}")
        end

        def reap
          @workers.reject! do |pid|
            _, status = Process.wait2(pid, Process::WNOHANG)
            tell(event: "ended", pid:, status: status.to_s) if status
            status
          end
        end

        def tell(**message) = @channel.send(message)

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
