# frozen_string_literal: true

require_relative "channel"
require_relative "sockets"
require_relative "worker"

module NeverBlock
  class Server
    module Cluster
      # The process that loads the app once and forks the workers, at the supervisor's word. It serves nothing and starts
      # no loop, so that a worker begins with the app and nothing else.
      #
      #   Template.new(channel, sockets, configuration) { load_app }.run   # => 0
      # @api private
      class Template
        # Of the messages between the processes: those of another version of this gem may differ.
        PROTOCOL = 1
        # Seconds after which a worker's end is noticed at the latest.
        LOOK = 0.2
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
        end

        # Works until the supervisor has enough of it, or has gone, and no worker is left.
        # @return [Integer] the exit status
        def run
          Process.setproctitle("neverblock #{VERSION}: template")
          SIGNALS.each { |name| trap(name) {} }
          return CLI::FAILED unless load_app
          until @dismissed && @workers.empty?
            obey if !@dismissed && @channel.io.wait_readable(LOOK)
            sleep LOOK if @dismissed
            reap
          end
          CLI::OK
        end

        private

        def load_app
          @app = @load.call
          @configuration.call_hooks(:before_fork)
          GC.compact # what the workers share stays shared for longer
          tell(event: "loaded", protocol: PROTOCOL)
        rescue ScriptError, StandardError => error
          tell(event: "failed", message: (Error === error) ? error.message : error.full_message(highlight: false, order: :top))
          false
        end

        def obey
          message, ios = @channel.receive
          case message && message[:do]
          when "fork" then start(message[:slot], ios.first)
          else @dismissed = true # or the supervisor has gone: the workers see that too
          end
        end

        def start(slot, io)
          pid = fork do
            @channel.close
            io.autoclose = false # the channel's from here on
            worker = Worker.new(slot, Channel.inherited(io.fileno), @sockets, @app, @configuration)
            exit(worker.run ? CLI::OK : CLI::FAILED)
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
      end
    end
  end
end
