# frozen_string_literal: true

require_relative "../app_error"
require_relative "../commands"
require_relative "../events"
require_relative "../memory"
require_relative "../runtime_stats"
require_relative "../service"

module NeverBlock
  class Server
    module Cluster
      # A process that serves requests, with the app that the template loaded and the sockets that the supervisor
      # opened.
      #
      #   Worker.new(0, channel, sockets, app, configuration, events, balance:, balance_entry: 0).run
      #   # => true: no request was cancelled
      # @api private
      class Worker
        # Seconds between two reports of its statistics.
        PULSE = 1.0
        # Memory is measured with every fifth report: the kernel takes a while to count it.
        MEMORY_EVERY = 5
        # A full worker accepts connections again below this share of max_in_flight; it looks every LOOK seconds.
        ROOM, LOOK = 0.9, 0.02

        # @param slot [Integer] its number
        # @param channel [Channel] to the supervisor
        # @param sockets [Sockets]
        # @param app [#call]
        # @param configuration [Configuration]
        # @param events [Events] with the logs that the template has opened
        # @param balance [Balance] of all workers of the template
        # @param balance_entry [Integer, nil] its own
        def initialize(slot, channel, sockets, app, configuration, events, balance:, balance_entry:)
          @slot = slot
          @channel = channel
          @configuration = configuration
          @events = events
          @service = Service.new(app, configuration, @events, binder: sockets, balance:, balance_entry:)
        end

        # Serves until the supervisor tells it to stop, or has ended.
        # @return [Boolean] whether no request was cancelled
        def run
          Process.setproctitle("#{name} starting") # replaces the template's title
          terminations = catch_signals
          @configuration.call_hooks(:after_fork, @slot)
          whole = serve(terminations)
          say_goodbye
          tell(event: "over", whole:)
          whole
        rescue *AppError::CAUSES => error
          @events.leave_loop
          @events.error_log.broken("worker #{@slot}", error)
          tell(event: "failed", message: LogText.error(error))
          false
        end

        private

        # All requests have been answered, so a failing hook affects none.
        def say_goodbye
          @configuration.call_hooks(:before_worker_exit, @slot)
        rescue *AppError::CAUSES => error
          @events.error_log.broken("before_worker_exit of worker #{@slot}", error)
        end

        def serve(terminations)
          NeverBlock.run(exit: :cancel) do |scope|
            scope.spawn(name: "serve") { @service.serve }
            @service.wait_until_listening
            scope.spawn(name: "signals") { tell(event: "asked") while terminations.pop }
            scope.spawn(name: "supervisor") { process_messages }
            scope.spawn(name: "pulse") { pulse }
            scope.spawn(name: "fullness") { tell_when_full }
            tell(event: "ready", pid: Process.pid)
            @service.wait
          end
        end

        # QUIT comes when the loop is blocked, so the backtraces are written in its handler.
        def catch_signals
          terminations = Thread::Queue.new
          Template.leave_signals_to_the_supervisor
          trap("TERM") { terminations << true }
          trap("QUIT") { @events.error_log.backtraces(Thread.main, NeverBlock.tasks) }
          terminations
        end

        def process_messages
          while (message, _ = @channel.receive)
            case message[:do]
            when "stop" then @service.stop(message[:timeout], keepalive_grace: message.fetch(:farewell, 0))
            when "reopen" then tell(event: "reopened", failures: @events.reopen)
            when "command" then command(**message.slice(:id, :name, :argument))
            when "stand back" then @service.stand_back(message[:flag])
            end
          end
          @service.stop(@configuration[:shutdown_timeout]) # the channel is closed: the supervisor has ended
        end

        def command(id:, name:, argument:)
          good, text = Commands.call(name, argument)
          tell(event: "commanded", id:, good:, text:)
        end

        def pulse
          runtime = RuntimeStats.new(@events.error_log)
          (0..).each do |count|
            stats = @service.stats.except(:addresses)
            Process.setproctitle(title(stats))
            @memory = Memory.own if (count % MEMORY_EVERY).zero?
            tell(event: "pulse",
              stats: {**stats, memory: @memory, runtime: runtime.read, debugger: !defined?(DEBUGGER__::SESSION).nil?})
            sleep PULSE
          end
        end

        # The supervisor knows whether other workers have room, and tells this one to stand back.
        def tell_when_full
          full = Thread::Queue.new
          @events.on_full = -> { full << true if full.empty? }
          enough = @configuration[:max_in_flight] * ROOM
          while full.pop
            tell(event: "full")
            sleep LOOK while @service.stats.values_at(:in_flight, :ready).sum > enough
            tell(event: "room")
          end
        end

        def title(stats)
          requests, ready, queued, connections = stats.values_at(:in_flight, :ready, :queued, :connections)
          waiting = ready + queued
          "#{name} #{requests} requests#{", #{waiting} waiting" if waiting > 0}, #{connections} connections"
        end

        def name = @name ||= "neverblock #{VERSION}: worker #{@slot} [#{@configuration[:tag] || folder}]"

        # A deployment may remove the folder of an old release, whose workers and template go on.
        def folder
          File.basename(Dir.pwd)
        rescue Errno::ENOENT
          "a folder that is gone"
        end

        def tell(**message) = @channel.send(message)
      end
    end
  end
end
