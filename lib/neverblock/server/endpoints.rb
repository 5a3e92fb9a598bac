# frozen_string_literal: true

require_relative "control"
require_relative "health"

module NeverBlock
  class Server
    # The servers of `health` and `control`, beside that of the app.
    #
    #   endpoints = Endpoints.new(configuration, supervisor, $stderr)
    #   endpoints.start     # inside a loop
    #   endpoints.stop
    # @api private
    class Endpoints
      # Seconds for the responses to clients that wait for the server's end.
      CONTROL_GRACE = 2

      # @param configuration [Configuration]
      # @param subject [#live?, #ready?, #stats, #signalled, #reopen]
      # @param log [#write] their error log
      def initialize(configuration, subject, log)
        @subject = subject
        @limits = {error_log: log, max_in_flight: 20, max_connections: 200, idle_timeout: 5, slow_request: nil}
        @health, @path = configuration[:health], configuration[:control]
        @servers = {}
      end

      # @return [void]
      # @raise [BindError]
      def start
        @process = Process.pid
        @control = Control.new(@subject)
        serve(:health, Health.new(@subject), @health) if @health
        serve(:control, @control, "unix://#{File.expand_path(@path)}?mode=0600") if @path
      end

      # Starts them on a thread with a loop of its own, so that they answer while the app's loop is blocked.
      # @return [void]
      # @raise [BindError]
      def start_apart
        Thread.new do
          Thread.current.report_on_exception = false # value raises it
          start
        end.value
      end

      # A forked child has no threads that serve them.
      # @param whole [Boolean, nil] as for Control#ended
      # @return [void]
      def stop(whole = nil)
        return unless @process == Process.pid
        @control&.ended(whole)
        @servers.each { |name, server| server.stop(timeout: (name == :control) ? CONTROL_GRACE : 0) }
      end

      private

      def serve(name, app, bind)
        server = @servers[name] = Server.new(app, bind:, **@limits)
        server.yields = true
        server.start
      rescue BindError => error
        raise BindError, "#{name} #{error.message}", cause: nil
      end
    end
  end
end
