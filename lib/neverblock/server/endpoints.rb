# frozen_string_literal: true

require_relative "control"
require_relative "health"

module NeverBlock
  class Server
    # The small servers beside the app's: `health` and `control`.
    #
    #   endpoints = Endpoints.new(configuration, supervisor, $stderr)
    #   endpoints.start     # inside a loop
    #   endpoints.stop
    # @api private
    class Endpoints
      # @param configuration [Configuration]
      # @param subject [#live?, #ready?, #stats, #signalled]
      # @param log [#write] for what they have to say
      def initialize(configuration, subject, log)
        limits = {error_log: log, max_in_flight: 20, max_connections: 200, idle_timeout: 5, shutdown_timeout: 1}
        health, path = configuration[:health], configuration[:control]
        @servers = {}
        @servers[:health] = Server.new(Health.new(subject), bind: health, **limits) if health
        @servers[:control] = Server.new(Control.new(subject), bind: "unix://#{File.expand_path(path)}?mode=0600", **limits) if path
        @servers.each_value { |server| server.yields = true }
      end

      # @return [void]
      # @raise [BindError]
      def start
        @servers.each do |name, server|
          server.start
        rescue BindError => error
          raise BindError, "#{name} #{error.message}", cause: nil
        end
      end

      # Starts them on a thread, with a loop of their own, that does not stand still with this one.
      # @return [void]
      # @raise [BindError]
      def start_apart
        Thread.new do
          Thread.current.report_on_exception = false # value raises it
          start
        end.value
      end

      # @return [void]
      def stop = @servers.each_value { |server| server.stop(timeout: 0) }
    end
  end
end
