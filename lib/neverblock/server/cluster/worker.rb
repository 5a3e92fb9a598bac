# frozen_string_literal: true

require_relative "../events"
require_relative "../service"

module NeverBlock
  class Server
    module Cluster
      # A process that serves: the app as the template has loaded it, the sockets as the supervisor has opened them.
      #
      #   Worker.new(0, channel, sockets, app, configuration).run   # => true: every request came to its end
      # @api private
      class Worker
        # Seconds between two words about how it is.
        PULSE = 1.0

        # @param slot [Integer] its number
        # @param channel [Channel] to the supervisor
        # @param sockets [Sockets]
        # @param app [#call]
        # @param configuration [Configuration]
        def initialize(slot, channel, sockets, app, configuration)
          @slot = slot
          @channel = channel
          @configuration = configuration
          @events = Events.new(configuration)
          @service = Service.new(app, configuration, @events, binder: sockets)
        end

        # Serves until it is told to stop, or the supervisor has gone.
        # @return [Boolean] whether nothing was cut short
        def run
          terminations = catch_signals
          @configuration.call_hooks(:after_fork, @slot)
          NeverBlock.run(exit: :cancel) do |scope|
            scope.spawn(name: "serve") { @service.serve }
            @service.open
            @service.wait_until_listening
            scope.spawn(name: "signals") { loop { terminations.pop && tell(event: "asked") } }
            scope.spawn(name: "supervisor") { obey }
            scope.spawn(name: "pulse") { pulse }
            tell(event: "ready", pid: Process.pid)
            @service.wait
          end.tap { @configuration.call_hooks(:before_worker_exit, @slot) }
        end

        private

        # INT comes from a terminal, to all; what a supervisor may be told means nothing here.
        def catch_signals
          terminations = Thread::Queue.new
          (Template::SIGNALS - %w[TERM]).each { |name| trap(name) {} } # ignored ones, the app's programs would inherit
          trap("TERM") { terminations << true }
          terminations
        end

        def obey
          while (message, _ = @channel.receive)
            case message[:do]
            when "stop" then @service.stop(message[:timeout], farewell: message.fetch(:farewell, 0))
            when "reopen" then @events.reopen
            end
          end
          @service.stop(@configuration[:shutdown_timeout]) # the supervisor has gone
        end

        def pulse
          loop do
            stats = @service.stats
            Process.setproctitle(title(stats))
            tell(event: "pulse", stats: stats.except(:addresses))
            sleep PULSE
          end
        end

        def title(stats)
          requests, queued, connections = stats.values_at(:in_flight, :queued, :connections)
          "neverblock #{VERSION}: worker #{@slot} [#{@configuration[:tag] || File.basename(Dir.pwd)}] #{requests} requests" \
            "#{", #{queued} queued" if queued > 0}, #{connections} connections"
        end

        def tell(**message) = @channel.send(message)
      end
    end
  end
end
